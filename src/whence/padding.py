"""What stands in a history where there is no item; here alone, so that data need no PyTorch."""

from typing import Final

PAD: Final = -1
"""In a batch of histories, the slot holds no item."""
