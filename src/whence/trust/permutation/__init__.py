"""Whether predictions change when attention is shuffled, and the audit's question about it."""
