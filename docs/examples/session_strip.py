"""One session, track after track: what happened, what was predicted, and on which evidence.

    python docs/examples/session_strip.py [--picture session-strip.png] [--device cuda]

An interpretable Transformer learns from the sessions of the study attribution-skips, as its first
seed does there. Drawn is one of the first sessions it is tested on, that with the most different
causes in its second half, as in Figure 11 of Afchar & Hennequin (2020).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from whence.devices import check_device
from whence.files import make_parent
from whence.report.charts import to_png
from whence_studies.charts.skip_charts import strip_chart
from whence_studies.sessions import SessionBatch, read_tracks, split_files, write_sessions
from whence_studies.sessions.session_batches import batches
from whence_studies.skips import EXPERT_OF, fit_skips, predict_skips
from whence_studies.skips.skip_evaluation import session_tensors
from whence_studies.tables.skip_networks import INTERPRETABLE, SMALL
from whence_studies.tables.skips import LISTENING


def main() -> None:
    """Make sessions, learn, and draw one."""
    chosen = _parse()
    device = check_device(chosen.device)
    with tempfile.TemporaryDirectory() as folder:
        listening = replace(LISTENING, sessions=chosen.sessions)
        parts = split_files(write_sessions(Path(folder) / "sessions", listening))
        tracks = read_tracks(parts.train.tracks)
        training = replace(SMALL.training, steps=chosen.steps)
        network = SMALL.networks[INTERPRETABLE]
        fitted = fit_skips(
            parts, tracks, network, training, 0, device=device, show_progress=not chosen.quiet
        )
        halves = next(batches(parts.test, tracks))
    case = of_most_causes(halves)
    tensors = session_tensors(halves, device)
    with torch.no_grad():
        selected = fitted.model.attribute(tensors.known, tensors.upcoming).cpu().numpy()
    chart = strip_chart(halves, selected, predict_skips(fitted.model, halves) > 0, case)
    make_parent(chosen.picture)
    chosen.picture.write_bytes(to_png(chart))
    print(f"Session {case} is drawn in {chosen.picture}.")


def of_most_causes(halves: SessionBatch) -> int:
    """The first session whose second half has the most of the causes that evidence can tell."""
    assert halves.causes is not None
    has = [(halves.causes == cause).any(axis=1) for cause in EXPERT_OF]
    return int(np.sum(has, axis=0).argmax())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, default=Path("session-strip.png"))
    parser.add_argument("--sessions", type=int, default=LISTENING.sessions, help="of a log")
    parser.add_argument("--steps", type=int, default=SMALL.training.steps)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser.parse_args()


if __name__ == "__main__":
    main()
