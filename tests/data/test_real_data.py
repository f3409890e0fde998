"""Real files against the counts their publishers print, where `WHENCE_DATA` names a folder."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from whence.data import leave_one_out, load

pytestmark = pytest.mark.needs("data")


def real(name: str) -> str:
    """The text of a file that may lie there packed."""
    path = Path(os.environ["WHENCE_DATA"]) / name
    if path.exists():
        return path.read_text()
    return gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes()).decode()


def test_movielens_latest_small(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(real("ml-latest-small/ratings.csv"))
    data = load(path)
    assert (len(data), data.user_count, data.item_count) == (100_836, 610, 9_724)
    assert data.ratings is not None
    assert sorted(set(data.ratings.tolist())) == [half / 2 for half in range(1, 11)]


def test_amazon_games(tmp_path: Path) -> None:
    """As Baumhauer (2021) counts it; 112 users are too short to be evaluated."""
    path = tmp_path / "games.csv"
    path.write_text("user,item\n" + real("amazon-video-games-sasrec/Video.txt").replace(" ", ","))
    data = load(path)
    assert (len(data), data.user_count, data.item_count) == (287_107, 31_013, 23_715)
    assert len(leave_one_out(data).held["test"]) == 31_013 - 112
