"""Tests by many random attempts, too many for every run of the test suite."""
