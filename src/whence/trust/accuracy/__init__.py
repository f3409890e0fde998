"""Is the model accurate?"""

from whence.trust.accuracy import accuracy_finding as accuracy_finding
