"""Studies that re-run published tables and figures and compare the values."""
