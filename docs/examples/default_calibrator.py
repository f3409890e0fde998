"""Learn the calibrator that comes with Whence, on the worlds that `reasons-truth` learns from.

python docs/examples/default_calibrator.py --device cuda
"""

from __future__ import annotations

import argparse
from pathlib import Path

from whence.data.copies import cache_folder
from whence_studies.study import find_study
from whence_studies.tables.reasons import learn_default
from whence_studies.tables.trained_skips import Workspace

SHIPPED = Path(__file__).parents[2] / "src" / "whence" / "reasons" / "calibrator.safetensors"

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--cache", type=Path, default=cache_folder(), help="that of the study")
    parser.add_argument("--out", type=Path, default=SHIPPED)
    asked = parser.parse_args()
    found = learn_default(find_study("reasons-truth"), Workspace(asked.cache, asked.device))
    asked.out.write_bytes(found.cpu().to_bytes())
    print(f"Wrote {asked.out}")
