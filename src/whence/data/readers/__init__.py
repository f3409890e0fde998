"""Readers of events from files, frames and databases."""
