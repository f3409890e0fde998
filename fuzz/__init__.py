"""Many random attempts, too many for every run of the tests. `make fuzz` runs them."""
