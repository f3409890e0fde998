"""Documents that others wrote are refused in one sentence if they are not what they should be."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whence.errors import InputError
from whence.explainers.measured import FILE, read_measured
from whence.explanation import Explanation
from whence.measure import Measure
from whence.reading import read_text
from whence_studies.records import read_records
from whence_studies.study import read_study

MEASURE = Measure(0.5, (0.4, 0.6), 10, "a protocol", "higher is better", (0.0, 1.0))
EXPLANATION = Explanation(
    scores=np.array([[0.5, -1.0]]),
    parts=np.array([[True, True]]),
    target=np.array([3]),
    full_score=np.array([1.5]),
    empty_score=np.array([2.0]),
    removal="left out",
    method="shapley",
    parameters={},
    seed=0,
    evaluations=np.array([4]),
    signed=True,
)
Reader = Callable[[Path], object]
READERS: dict[str, Reader] = {
    "measure": Measure.load,
    "explanation": Explanation.load,
    "records": lambda path: read_records(path.stem, path.parent),
    "study": lambda path: read_study(path, path.name),
}
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


def refused(read: Reader, path: Path, said: str = ".") -> None:
    with pytest.raises(InputError, match=said) as caught:
        read(path)
    assert len(str(caught.value)) < 600


@every_reader
def test_special_files_are_refused(read: Reader, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    os.mkfifo(path)
    refused(read, path, "is not a regular file")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(read, path, "is not a regular file")
    path.unlink()
    path.mkdir()
    refused(read, path, "is a folder")


@every_reader
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"a = " + b"[" * 100_000,
        b'{"a":' * 100_000,
        b"a = " + b"{a = " * 5_000,
        b"a." * 50_000 + b"a = 1",
        b"[" + b"a." * 50_000 + b"a]",
        b"a = 9999-99-99",
        b"1" * 5_000,
        b"[1, 2]",
        b"title = 5",
        b'[{"value": {}}]',
    ],
)
def test_other_content_is_refused(read: Reader, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(content)
    refused(read, path)


def test_large_files_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.touch()
    os.truncate(path, 2**40)
    refused(read_text, path, "is too large: it may have 256 MB")
    refused(READERS["study"], path, "is too large: it may have 1 MB")


def changed(document: dict[str, Any], **values: object) -> str:
    return json.dumps({**document, **values})


@pytest.mark.parametrize(
    ("key", "value"),
    [("value", "0.5x"), ("n", []), ("protocol", 5), ("direction", "up"), ("range", [1]), ("x", 1)],
)
def test_a_measure_has_its_types(key: str, value: object) -> None:
    assert Measure.from_json(MEASURE.to_json()) == MEASURE
    with pytest.raises(InputError):
        Measure.from_json(changed(MEASURE.as_dict(), **{key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("slots", 10**12),
        ("slots", -1),
        ("slots", "2"),
        ("method", 5),
        ("signed", "yes"),
        ("seed", None),
        ("cases", [{}]),
        ("parameters", [1]),
    ],
)
def test_an_explanation_has_its_types(key: str, value: object) -> None:
    assert Explanation.from_json(EXPLANATION.to_json()).as_dict() == EXPLANATION.as_dict()
    with pytest.raises(InputError, match="This is not the JSON of Explanation"):
        Explanation.from_json(changed(EXPLANATION.as_dict(), **{key: value}))


def test_an_explanation_has_one_value_per_case() -> None:
    document = EXPLANATION.as_dict()
    document["cases"][0]["full_score"] = [1.0, 2.0]
    with pytest.raises(InputError, match="This is not the JSON of Explanation"):
        Explanation.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("key", "value"),
    [("seeds", []), ("seeds", "x"), ("machine", 5), ("models", {}), ("sure", {"SASRec": [1]})],
)
def test_measured_figures_have_their_types(key: str, value: object, tmp_path: Path) -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    path = tmp_path / "measured.json"
    path.write_text(changed(document))
    read_measured(path)
    path.write_text(changed(document, **{key: value}))
    refused(read_measured, path, "is not what docs/examples/which_explainer.py")
