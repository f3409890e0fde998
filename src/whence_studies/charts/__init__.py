"""Tables, charts and pages of studies."""
