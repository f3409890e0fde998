"""Audits: one question after another about a trained run, and the answers in one report."""
