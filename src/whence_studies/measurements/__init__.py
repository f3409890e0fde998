"""Measurements of a trained run, one file each."""
