"""Shapley values compared with captum, shap and shapiq: speed, and error for the same time.

MovieLens-1M, histories of 50 items (BERT4Rec: 49), 1,024 coalitions, two threads. The libraries
share a process, so that their runs are interleaved. `error-against-time.json` and its chart show
the error of each library at several numbers of coalitions.
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
"""Floor and goal by the number of blocks: how many times faster than captum's KernelShap."""
PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0", "GOMP_SPINCOUNT": "0"}
"""Each library loads its own OpenMP, and idle threads that spin slow down the next library.

With short turns, that costs more than waking threads up.
"""
VERSIONS = {"captum": "captum 0.9.0", "shap": "shap 0.51.0", "shapiq": "shapiq 1.4.1"}


def measure() -> Iterator[Record]:
    """Yield milliseconds per history, then our error in the time that each peer takes."""
    if "WHENCE_DATA" not in os.environ:
        print("Skipped the comparison with peers. Set WHENCE_DATA to a folder with MovieLens-1M.")
        return
    figures: dict[str, float] = run_peers("speed", {})
    for blocks in FLOORS:
        yield from speed(figures, blocks)
    points: list[dict[str, Any]] = run_peers("curve", PASSIVE)
    CURVE.write_text(json.dumps(points, indent=2) + "\n")
    draw(points)
    yield from errors(points)


def run_peers(task: str, threads: dict[str, str]) -> Any:  # noqa: ANN401
    """Run the script in the peers' environment with our sources, and return what it prints."""
    command = [str(python_of("explainers")), "-W", "ignore", str(HERE / "explain_peers.py"), task]
    variables = {**os.environ, **threads, "PYTHONPATH": str(FOLDER.parent / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def speed(figures: dict[str, float], blocks: int) -> Iterator[Record]:
    """Yield the milliseconds per history for a model with this number of blocks."""
    floor, goal = FLOORS[blocks]
    what = f"Shapley values of SASRec, n_blocks {blocks}, 50 items, 1,024 coalitions"
    together, alone = figures[f"together {blocks}"], figures[f"whence {blocks}"]
    captum = figures[f"captum {blocks}"]
    yield Record(
        f"{what}, 32 histories at a time", together, captum, VERSIONS["captum"], "ms", floor, goal
    )
    yield Record(f"{what}, one history at a time", alone, captum, VERSIONS["captum"], "ms")
    for peer in ("shap", "shapiq"):
        yield Record(
            f"{what}, 32 histories at a time, compared with {peer}",
            together,
            figures[f"{peer} {blocks}"],
            VERSIONS[peer],
            "ms",
        )
    yield Record(
        f"Shapley values of BERT4Rec, n_blocks {blocks}, 49 items, 1,024 coalitions, "
        "one history at a time",
        figures[f"bert {blocks}"],
        figures[f"bert plainly {blocks}"],
        "one batch row per coalition",
        "ms",
    )


def errors(points: list[dict[str, Any]]) -> Iterator[Record]:
    """Yield our error in no more time than the peer takes for 1,024 coalitions.

    If no point of ours is that fast, the fastest counts.
    """
    for blocks in FLOORS:
        ours = [one for one in points if (one["library"], one["blocks"]) == ("whence", blocks)]
        for peer, version in VERSIONS.items():
            theirs = next(
                one
                for one in points
                if (one["library"], one["blocks"], one.get("coalitions")) == (peer, blocks, 1024)
            )
            fastest = min(ours, key=lambda one: float(one["milliseconds"]))
            in_time = [one for one in ours if one["milliseconds"] <= theirs["milliseconds"]]
            yield Record(
                f"relative error of Shapley values, n_blocks {blocks}, in the time of {peer}",
                min(one["error"] for one in in_time or [fastest]),
                theirs["error"],
                version,
                "of the norm",
            )


def draw(points: list[dict[str, Any]]) -> None:
    """Draw error against time on log scales, with a panel for each number of blocks."""
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
