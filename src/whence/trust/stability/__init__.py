"""Whether models trained from other seeds say the same, and the audit's question about it."""
