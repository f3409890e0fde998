"""Do explainers find the true reason, where it is known?"""

from whence.trust.truth import truth_finding as truth_finding
