"""Run the command line in this process; a new one would import PyTorch each time."""

from __future__ import annotations

import io
import os
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from whence.cli import main
from whence.cli.options import err, out


@dataclass(frozen=True)
class Done:
    """What a finished command left."""

    returncode: int
    stdout: str
    stderr: str


def whence(*arguments: object, cwd: Path | None = None, columns: int = 160) -> Done:
    """Run `whence` with these arguments."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code: object = 0
    widths = out.width, err.width
    with (
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        mock.patch.object(sys, "argv", ["whence", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        chdir(cwd or Path.cwd()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        out.width = err.width = columns
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        finally:
            out.width, err.width = widths
    return Done(code if isinstance(code, int) else 0, stdout.getvalue(), stderr.getvalue())
