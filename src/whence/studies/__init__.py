"""Published tables and figures, run again: one file each."""
