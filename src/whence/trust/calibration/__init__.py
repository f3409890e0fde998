"""Whether the model is right as often as it is sure, and the audit's question about it."""
