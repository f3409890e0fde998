"""An explanation prints itself, and loads again with the same numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explanation import Explanation, Labels, bar
from whence.testing import small_cases


@pytest.fixture(scope="module")
def labelled() -> Explanation:
    """Shapley values with names and raw ids, and without any for padding."""
    model, batch, targets = small_cases()
    names = tuple(tuple(f"Film {item}" if item >= 0 else "" for item in row) for row in batch)
    ids = tuple(tuple(int(item) if item >= 0 else None for item in row) for row in batch)
    labels = Labels(names, tuple(f"Film {one}" for one in targets), ids, tuple(targets.tolist()))
    return explain_batch(model, batch, targets, "shapley:coalitions=64,exact_up_to=0", 3, labels)


@pytest.mark.parametrize("method", ["rollout", "shapley", "lime"])
def test_a_saved_explanation_loads_again_bit_by_bit(method: str, tmp_path: Path) -> None:
    found = explain_batch(*small_cases(), method)
    again = Explanation.load(found.save(tmp_path / "explanation.json"))
    for name in ("scores", "parts", "target", "full_score", "empty_score", "evaluations", "error"):
        one, two = getattr(found, name), getattr(again, name)
        assert (one is None) == (two is None)
        assert one is None or (one.dtype == two.dtype and np.array_equal(one, two)), name
    assert (again.method, again.parameters, again.labels) == (method, found.parameters, None)


def test_labels_and_ids_load_again(labelled: Explanation) -> None:
    assert Explanation.from_json(labelled.to_json()).labels == labelled.labels


def test_other_json_is_an_error() -> None:
    with pytest.raises(InputError, match="not the JSON of Explanation"):
        Explanation.from_json('{"method": "rollout"}')


def test_repr_is_short_and_notebooks_get_html(labelled: Explanation) -> None:
    assert repr(labelled[0]) == f"Explanation('{labelled.method}', 1 case, 8 parts)"
    assert "Film" in labelled._repr_html_()


def test_negative_bars_are_left_of_the_axis_without_colour(
    labelled: Explanation, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = np.where(labelled.parts, np.linspace(-1, 0.5, 8), 0.0)
    replace(labelled, scores=scores)[0].show()
    rows = [line for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert len(rows) == 8
    for row in rows:
        left, _, right = row.partition("│")
        assert ("█" in left) == ("-" in left.split("█")[0])
        assert "█" not in left or "█" not in right


def test_unsigned_bars_have_no_axis() -> None:
    assert "│" not in bar(1.0, 2.0, signed=False)
    assert bar(0.0, 0.0, signed=False).plain == ""
