"""Is the model right as often as its confidence says?"""

from whence.trust.calibration import calibration_finding as calibration_finding
