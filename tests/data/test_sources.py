"""`load` as the one door."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from whence.data import Preparation, ReadOptions, load
from whence.data.origins import reload
from whence.errors import InputError


def test_names_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no dataset 'wrld': did you mean 'world'"):
        load("wrld")
    assert load("World").origin == load("world").origin
    with pytest.raises(InputError, match="There is no file or folder wrld.csv"):
        load("wrld.csv")
    with pytest.raises(InputError, match="is a folder. Give a file in it"):
        load(tmp_path)
    with pytest.raises(InputError, match="cannot be read from a int"):
        load(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "postgresq://me:s3cret@host/db",
        "mysql://me:s3cret@host/db",
        "postgresql:/me:s3cret@host/db",
        "postgresql//me:s3cret@host/db",
        "host=h password=s3cret",
    ],
)
def test_other_addresses_give_a_clear_error_without_the_password(url: str) -> None:
    with pytest.raises(InputError, match="This address is not supported") as caught:
        load(url)
    assert "s3cret" not in str(caught.value)


def test_a_query_is_for_a_database(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("user,item\n1,2\n")
    with pytest.raises(InputError, match="is not a database, so it takes no query"):
        load(tmp_path / "a.csv", ReadOptions(query="SELECT 1"))


def test_what_is_known_by_name_needs_no_columns() -> None:
    with pytest.raises(InputError, match="take no user"):
        load("world", ReadOptions(user="who"))
    assert load("world", ReadOptions(verb="met")).verb == "met"


def test_preparation_is_part_of_the_origin(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,rating\n" + "1,2,5\n1,3,1\n2,2,4\n2,3,5\n2,4,5\n")
    data = load(path, preparation=Preparation(min_rating=4, min_item_events=2))
    assert data.catalog.raw_ids(data.items) == [2, 2]
    again = reload(data.origin)
    assert again.content_hash == data.content_hash
    assert again.filters == data.filters


def test_memory_cannot_be_read_again() -> None:
    data = load(pa.table({"user": [1, 1], "item": [2, 3]}))
    assert set(data.origin) == {"reading"}
    with pytest.raises(InputError, match="came from memory"):
        reload(data.origin)


def test_one_file_in_every_form_is_the_same_data(tmp_path: Path) -> None:
    """CSV, TSV, JSON lines, Parquet, packed or not, and frames: one content."""
    import gzip
    import json

    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "user": rng.integers(-5, 5, 200),
            "item": [f"i{n}" for n in rng.integers(0, 30, 200)],
            "rating": rng.integers(1, 11, 200) / 2,
            "time": rng.integers(1_500_000_000, 1_500_000_050, 200),
        }
    )
    rows = table.to_pylist()
    texts = {
        "a.csv": "user,item,rating,time\n"
        + "".join(",".join(map(str, r.values())) + "\n" for r in rows),
        "a.tsv": "user\titem\trating\ttime\n"
        + "".join("\t".join(map(str, r.values())) + "\n" for r in rows),
        "a.json": "".join(json.dumps(r) + "\n" for r in rows),
        "literals.txt": "".join(repr(r) + "\n" for r in rows),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        packed = pa.compress(text.encode(), codec="zstd", asbytes=True)
        (tmp_path / f"{name}.zst").write_bytes(packed)
    pq.write_table(table, tmp_path / "a.parquet")
    expected = load(table).content_hash
    for path in tmp_path.iterdir():
        assert load(path).content_hash == expected, path.name


@pytest.mark.needs("demo")
def test_the_embedded_default() -> None:
    data = load("ml-latest-small-2016")
    assert (len(data), data.user_count, data.item_count) == (100_004, 671, 9_066)
    titles = data.catalog.labels(range(data.item_count))
    assert sum(title.startswith("item ") for title in titles) == 5, "films without a title"
    typed = ["toy story", "Heat", "the heat", "se7en"]
    assert data.catalog.labels([data.catalog.find(text) for text in typed]) == [
        "Toy Story (1995)",
        "Heat (1995)",
        "Heat, The (2013)",
        "Seven (a.k.a. Se7en) (1995)",
    ]
    assert data.verb == "watched"
