"""Whether explainers find the true cause where it is known, and the audit's question about it."""
