"""Would a model trained from another seed recommend the same, for the same reasons?"""

from whence.trust.stability import stability_finding as stability_finding
