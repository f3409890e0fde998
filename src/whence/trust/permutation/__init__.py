"""Do predictions change when attention is shuffled?"""

from whence.trust.permutation import permutation_finding as permutation_finding
