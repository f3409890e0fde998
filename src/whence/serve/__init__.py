"""The web API and the page."""
