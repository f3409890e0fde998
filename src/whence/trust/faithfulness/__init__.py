"""Whether predictions change without the parts called important, and the audit's finding."""
