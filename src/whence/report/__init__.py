"""Results for people: tables in the terminal, charts, and self-contained pages."""
