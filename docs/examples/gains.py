"""Shared by the examples that ask whether reasons improve a recommender: gains as a table."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from whence.devices import check_device, machine
from whence.files import make_parent, write_json
from whence.measure import mean_over_seeds

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ValuesBySeed = dict[str, list[float]]
"""One value per seed, by weighting; the others are compared with the first."""


S = TypeVar("S", bound="DataclassInstance")
"""Settings of an example: integers, including the number of seeds."""


def measure_and_print(
    what: str,
    settings_of: type[S],
    measure: Callable[[S, str, bool], ValuesBySeed],
    headings: tuple[str, str, str],
) -> None:
    """Measure with the settings of the command line; `what` describes the example."""
    chosen = _parse(what, settings_of)
    named = {field.name: getattr(chosen, field.name) for field in fields(settings_of)}
    settings, device = settings_of(**named), check_device(chosen.device)
    found = measure(settings, device, chosen.quiet)
    print(as_markdown(found, headings))
    if chosen.json:
        make_parent(chosen.json)
        document = {"settings": asdict(settings), "machine": machine(device), "found": found}
        write_json(chosen.json, document)


def as_markdown(found: ValuesBySeed, headings: tuple[str, str, str]) -> str:
    """Return one line per weighting, with its gain over the first, paired by seed."""
    lines = [f"| {' | '.join(headings)} |", "|---|---|---|"]
    first = next(iter(found))
    for name, values in found.items():
        gains = [one - plain for one, plain in zip(values, found[first], strict=True)]
        gain = "" if name == first else str(mean_over_seeds(gains))
        lines.append(f"| {name} | {mean_over_seeds(values)} | {gain} |")
    return "\n".join(lines)


def _parse(what: str, settings_of: type[DataclassInstance]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    for field in fields(settings_of):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quiet", action="store_true")
    chosen = parser.parse_args()
    if chosen.seeds < 2:
        parser.error("an interval over seeds needs at least two of them")
    return chosen
