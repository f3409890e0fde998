"""What a study can measure of a trained run, one file a measurement."""
