"""Published tables and figures run again: our number next to the printed one."""
