"""Do the recommendations change without the parts that are called important?"""

from whence.trust.faithfulness import faithfulness_finding as faithfulness_finding
