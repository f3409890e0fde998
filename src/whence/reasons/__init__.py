"""Reasons in words, checked with the model before they are given."""
