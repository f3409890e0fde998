from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from whence.data import ReadOptions, load


def lines(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sequences.txt"
    path.write_text(text)
    return path


def test_pairs_as_sasrec_has_them(tmp_path: Path) -> None:
    data = load(lines(tmp_path, "1 3\n1 1\n2 3\n1 2\n"))
    assert data.users["user"].to_pylist() == [1, 2]
    assert data.catalog.raw_ids(data.items) == [3, 1, 2, 3]
    assert data.times is None


def test_lines_of_a_user_and_many_items(tmp_path: Path) -> None:
    data = load(lines(tmp_path, "u1 a b a\n\n  u2\tc  \nu1 d\n"))
    assert data.users["user"].to_pylist() == ["u1", "u2"]
    assert data.catalog.raw_ids(data.items) == ["a", "b", "a", "d", "c"]


def test_one_line_is_enough(tmp_path: Path) -> None:
    assert load(lines(tmp_path, "7 8 9")).catalog.raw_ids([0, 1]) == [8, 9]


def test_equal_widths_without_a_time_are_sequences(tmp_path: Path) -> None:
    data = load(lines(tmp_path, "1 2 3 4\n2 3 4 5\n"))
    assert (data.user_count, len(data)) == (2, 6)


words = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=4)
histories = st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=6)), min_size=1)


@given(rows=histories)
def test_against_a_loop(rows: list[tuple[str, list[str]]], tmp_path_factory: object) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"  # type: ignore[attr-defined]
    path.write_text("".join(f"{user} {' '.join(items)}\n" for user, items in rows))
    data = load(path, ReadOptions(format="sequences"))
    expected: dict[str, list[str]] = {}
    for user, items in rows:
        expected.setdefault(user, []).extend(items)
    found = {
        str(user): [str(item) for item in data.catalog.raw_ids(data.history(row))]
        for row, user in enumerate(data.users["user"].to_pylist())
    }
    assert found == expected
