"""Do the explainers agree with each other?"""

from whence.trust.agreement import agreement_finding as agreement_finding
