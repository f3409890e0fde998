"""Time to quality on Beauty: seconds of training until SASRec nearly ranks as well as RecTools'.

Both train the same sizes on the same events with one thread: once with the softmax over all items,
and once with 256 sampled negatives. Those differ. RecTools draws 256 for each position, uniformly;
Whence draws 256 for all positions of a batch, half of them by popularity, and corrects for that.
The rest are RecTools' defaults on both sides: 128 users in a batch, a dropout of 0.2 and a learning
rate of 0.001. Seconds are processor time, which other programs hardly change. Both rank the
validation events, each user's last but one, among all items that the user has not seen, every 100
steps and outside of the clock. RecTools gets the time between two validations at which the straight
line between them reaches the quality.

RecTools' newer `fast_transformers` trains only UniSRec, which needs vectors of texts. So it is not
compared.

The quality to reach is 90 % of the best NDCG@10 that RecTools reaches until it has not improved for
2,000 steps, or until the limit. Its curve is kept with its environment, until one of its scripts
changes.

`python quality.py rectools` trains RecTools only.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from measuring import Record, figures_in_turn, figures_of
from peers.environment import ENVIRONMENTS, HERE, python_of
from whence.data import load
from whence.errors import InputError

DATA = "s3rec-beauty"
PEER, VERSION = "rectools", "RecTools 0.19.0"
LOSSES = {"softmax": "softmax", "sampled_softmax": "sampled-softmax"}
"""By RecTools' name, that of Whence."""
SHARE = 0.9
"""Of the peer's best validation, the quality to reach."""
MINUTES = 80
"""How long the peer trains, or less if its validations no longer improve."""
SCRIPTS = ("quality_rectools.py", "train_rectools.py", "prepare_rectools.py", "rectools.txt")
"""What the peer's curve depends on."""

Curve = list[tuple[float, float]]
"""Seconds and NDCG@10 of each validation."""


def measure() -> Iterator[Record]:
    """Yield the seconds of three trainings with each loss, compared with the peer's one."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "beauty.txt"
        if not write_events(text):
            return
        for of_peer, own in LOSSES.items():
            yield measure_loss(text, of_peer, own)


def measure_loss(text: Path, of_peer: str, own: str) -> Record:
    """Return the seconds of three trainings, compared with the peer's one."""
    curve = peers_curve(text, of_peer)
    wanted = SHARE * max(value for _, value in curve)
    seeds = itertools.count()
    script = HERE / "quality_whence.py"
    ours = figures_in_turn(
        {"whence": lambda: figures_of([sys.executable, script, text, own, wanted, next(seeds)])}
    )["whence"]
    print(f"{own}: NDCG@10 of {wanted:.4f}; ours after {ours['step']:,.0f} steps")
    within = f" in {MINUTES} minutes" if curve[-1][0] >= MINUTES * 60 else ""
    return Record(
        f"training on Beauty with the loss {own} and one thread until NDCG@10 is {wanted:.4f}, "
        f"{100 * SHARE:.0f} % of the peer's best{within}",
        ours["seconds"],
        seconds_to(curve, wanted),
        VERSION,
        "s of processor time",
        floor=3.0,
        goal=6.0,
    )


def write_events(text: Path) -> bool:
    """Write `user item` of all events in their order, if the data are available."""
    try:
        data = load(DATA)
    except InputError as problem:
        print(f"Skipped: {problem}")
        return False
    users = np.repeat(np.arange(data.user_count), np.diff(data.offsets))
    np.savetxt(text, np.stack((users, data.items), axis=1), fmt="%d")
    return True


def peers_curve(text: Path, loss: str) -> Curve:
    """Return the validations of the peer, from the file if it was trained before."""
    python = python_of(PEER)
    kept = ENVIRONMENTS / PEER / f"{DATA}-{loss}-{version_of_scripts()}.json"
    if not kept.exists():
        partial = kept.with_suffix(".partial")
        figures_of([python, HERE / SCRIPTS[0], text, loss, MINUTES * 60, partial])
        partial.rename(kept)
    curve: Curve = json.loads(kept.read_text())
    return curve


def version_of_scripts() -> str:
    """Return a short hash of what the peer's curve depends on."""
    contents = b"".join((HERE / name).read_bytes() for name in SCRIPTS)
    return hashlib.sha256(contents).hexdigest()[:8]


def seconds_to(curve: Curve, wanted: float) -> float:
    """Return when the lines between the validations, from nothing on, reach a value."""
    before = (0.0, 0.0)
    for after in curve:
        if after[1] >= wanted:
            break
        before = after
    share = (wanted - before[1]) / (after[1] - before[1])
    return before[0] + share * (after[0] - before[0])


def train_peer() -> None:
    """Train the peer if there is no curve yet, and print what it reached."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "beauty.txt"
        if not write_events(text):
            return
        for loss in LOSSES:
            curve = peers_curve(text, loss)
            best = max(value for _, value in curve)
            print(
                f"{VERSION}, {loss}: best NDCG@10 {best:.4f} in {curve[-1][0]:,.0f} s of training, "
                f"{100 * SHARE:.0f} % of it after {seconds_to(curve, SHARE * best):,.0f} s"
            )


if __name__ == "__main__":
    if sys.argv[1:] != [PEER]:
        sys.exit(f"usage: python quality.py {PEER}")
    train_peer()
