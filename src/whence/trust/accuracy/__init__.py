"""How often the model is right, and the audit's question about it."""
