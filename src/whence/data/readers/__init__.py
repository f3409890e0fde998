"""Events out of whatever form they are in: files, frames, databases."""
