"""Shapley values beside captum, shap and shapiq: how fast, and how exact for their time.

On MovieLens-1M, histories of 50 items (BERT4Rec: 49), 1,024 coalitions, two threads. The libraries
share a process, so that they are measured in turn; `error-against-time.json` and its chart hold how
far each is from the truth at several numbers of coalitions.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring import Record
from peers.environment import HERE, python_of

FOLDER = Path(__file__).resolve().parent
CURVE = FOLDER / "error-against-time.json"
FLOORS = {1: (400.0, 1000.0), 2: (30.0, 60.0), 3: (15.0, 30.0)}
"""Times captum's KernelShap, by blocks: what must be, and what we want."""
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"}
"""The libraries bring OpenMP several times; threads of one that spin are in the way of the next.

Where everyone has a few short turns that counts for more than the slower waking of threads.
"""
VERSIONS = {"captum": "captum 0.9.0", "shap": "shap 0.51.0", "shapiq": "shapiq 1.4.1"}


def measure() -> Iterator[Record]:
    """Milliseconds a history, then errors at the time that each peer takes."""
    if "WHENCE_DATA" not in os.environ:
        print("no explaining beside peers: WHENCE_DATA names no folder with MovieLens-1M")
        return
    found: dict[str, float] = answer("speed", {})
    for blocks in FLOORS:
        yield from speed(found, blocks)
    points: list[dict[str, Any]] = answer("curve", PASSIVE)
    CURVE.write_text(json.dumps(points, indent=2) + "\n")
    draw(points)
    yield from errors(points)


def answer(task: str, threads: dict[str, str]) -> Any:  # noqa: ANN401
    """What the script prints, in the environment of the peers and with our sources."""
    command = [str(python_of("explainers")), "-W", "ignore", str(HERE / "explain_peers.py"), task]
    variables = {**os.environ, **threads, "PYTHONPATH": str(FOLDER.parent / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def speed(found: dict[str, float], blocks: int) -> Iterator[Record]:
    """Of a network with so many blocks."""
    floor, goal = FLOORS[blocks]
    what = f"a Shapley explanation, b = {blocks}, n = 50, 1,024 coalitions"
    together, alone = found[f"together {blocks}"], found[f"whence {blocks}"]
    captum = found[f"captum {blocks}"]
    yield Record(
        f"{what}, 32 histories at a time", together, captum, VERSIONS["captum"], "ms", floor, goal
    )
    yield Record(f"{what}, one history alone", alone, captum, VERSIONS["captum"], "ms")
    for peer in ("shap", "shapiq"):
        yield Record(
            f"{what}, 32 histories at a time, beside {peer}",
            together,
            found[f"{peer} {blocks}"],
            VERSIONS[peer],
            "ms",
        )
    yield Record(
        f"a Shapley explanation of BERT4Rec, b = {blocks}, n = 49, 1,024 coalitions, "
        "one history alone",
        found[f"bert {blocks}"],
        found[f"bert plainly {blocks}"],
        "a row of a batch for each coalition",
        "ms",
    )


def errors(points: list[dict[str, Any]]) -> Iterator[Record]:
    """Our error in no more time than the peer took for 1,024 coalitions.

    Where we were never so quick, that of our quickest point.
    """
    for blocks in FLOORS:
        ours = [one for one in points if (one["library"], one["blocks"]) == ("whence", blocks)]
        for peer, version in VERSIONS.items():
            theirs = next(
                one
                for one in points
                if (one["library"], one["blocks"], one.get("coalitions")) == (peer, blocks, 1024)
            )
            quickest = min(ours, key=lambda one: float(one["milliseconds"]))
            in_time = [one for one in ours if one["milliseconds"] <= theirs["milliseconds"]]
            yield Record(
                f"relative error of Shapley values, b = {blocks}, in the time of {peer}",
                min(one["error"] for one in in_time or [quickest]),
                theirs["error"],
                version,
                "of the norm",
            )


def draw(points: list[dict[str, Any]]) -> None:
    """Error against time, both by powers of ten, a panel for each number of blocks."""
    import altair

    from whence.report.charts import inline, styled, to_png, to_svg

    values = [one for one in points if one["library"] != "truth"]
    chart = (
        altair.Chart(inline(values))
        .mark_line(point=True)
        .encode(
            x=altair.X("milliseconds:Q", title="milliseconds a history").scale(type="log"),
            y=altair.Y("error:Q", title="relative error").scale(type="log"),
            color=altair.Color("library:N", title=None),
            order="coalitions:Q",
            column=altair.Column("blocks:O", title="blocks"),
        )
        .properties(width=220, height=240)
    )
    chart = styled(chart)
    CURVE.with_suffix(".png").write_bytes(to_png(chart))
    description = "How the error of Shapley values falls with time, by library"
    CURVE.with_suffix(".svg").write_text(to_svg(chart, description))


if __name__ == "__main__":
    for record in measure():
        print(record, flush=True)
