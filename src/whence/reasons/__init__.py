"""Reasons in words, checked before they are shown."""
