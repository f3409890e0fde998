"""Whether explainers agree with each other, and the audit's question about it."""
