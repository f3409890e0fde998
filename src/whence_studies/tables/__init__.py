"""Studies that fill whole tables by themselves: statistics, toys, skips."""
