"""One session, track by track: what happened, what was predicted, and on which evidence.

    python docs/examples/session_strip.py [--picture session-strip.png] [--device cuda]

Trains an interpretable Transformer on the sessions of the study attribution-skips, like its first
seed. Draws the session with the most different causes among the first test sessions, as in Figure
11 of Afchar & Hennequin (2020).
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
    """Write sessions, train, and draw one session."""
    chosen = _parse()
    device = check_device(chosen.device)
    with tempfile.TemporaryDirectory() as folder:
        listening = replace(LISTENING, sessions=chosen.sessions)
        split = split_files(write_sessions(Path(folder) / "sessions", listening))
        tracks = read_tracks(split.train.tracks)
        training = replace(SMALL.training, steps=chosen.steps)
        network = SMALL.networks[INTERPRETABLE]
        fitted = fit_skips(
            split, tracks, network, training, 0, device=device, show_progress=not chosen.quiet
        )
        batch = next(batches(split.test, tracks))
    case = with_most_causes(batch)
    tensors = session_tensors(batch, device)
    with torch.no_grad():
        selected = fitted.model.attribute(tensors.known, tensors.upcoming).cpu().numpy()
    chart = strip_chart(batch, selected, predict_skips(fitted.model, batch) > 0, case)
    make_parent(chosen.picture)
    chosen.picture.write_bytes(to_png(chart))
    print(f"Session {case} is drawn in {chosen.picture}.")


def with_most_causes(batch: SessionBatch) -> int:
    """Return the first session whose second half has the most different causes."""
    assert batch.causes is not None
    has = [(batch.causes == cause).any(axis=1) for cause in EXPERT_OF]
    return int(np.sum(has, axis=0).argmax())


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, default=Path("session-strip.png"))
    parser.add_argument("--sessions", type=int, default=LISTENING.sessions, help="sessions per log")
    parser.add_argument("--steps", type=int, default=SMALL.training.steps)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    return parser.parse_args()


if __name__ == "__main__":
    main()
