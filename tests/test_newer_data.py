"""A run recommends and explains from data that changed since its training."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import whence
from command_line import whence as command
from whence.errors import InputError
from whence.run import Run, open_run


def rows(users: int = 9, items: int = 6) -> list[str]:
    return [f"{u},{(u + i) % 8},{u * 10 + i}\n" for u in range(users) for i in range(items)]


def write(path: Path, lines: list[str], header: str = "user,item,time\n") -> Path:
    path.write_text(header + "".join(lines))
    return path


@pytest.fixture
def csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path / "cache"))
    return write(tmp_path / "events.csv", rows())


def trained(data: whence.data.sources.Source, out: Path, **more: object) -> Run:
    whence.train(
        data,
        **{"model_settings": {"max_len": 4, "dim": 8}, **more},  # type: ignore[arg-type]
        training={"steps": 2},
        out=out,
        show_progress=False,
    )
    return open_run(out)


def test_a_row_appended_to_the_file_counts(csv: Path, tmp_path: Path) -> None:
    run = trained(csv, tmp_path / "run")
    write(csv, [*rows(), "3,7,900\n", "3,6,901\n"])
    before, after = whence.recommend(run, user=3), whence.recommend(run, user=3, data=csv)
    assert after.history_ids == (*before.history_ids[2:], 7, 6)
    by_hand = whence.recommend(run, history=[str(one) for one in (3, 4, 5, 6, 7, 0, 7, 6)])
    assert [one.item for one in after.picks] == [one.item for one in by_hand.picks]
    explained = whence.explain(run, user=3, data=csv, method="leave-one-out")
    assert explained.labels is not None
    assert explained.labels.part_ids == ((7, 0, 7, 6),)
    assert whence.reason(run, user=3, data=csv).sentence


def test_new_users_are_served_and_unknown_items_named(csv: Path, tmp_path: Path) -> None:
    run = trained(csv, tmp_path / "run")
    newer = write(
        csv, [*rows(), "new,3,1\n", "new,90,2\n", "new,91,3\n", "odd,92,1\n", "odd,93,2\n"]
    )
    with pytest.warns(UserWarning, match=r"does not know 4 of the 12 items.*\(90, 91, 92, …\)"):
        found = whence.recommend(run, user="new", data=newer)
    assert found.history_ids == (3,)
    with (
        pytest.warns(UserWarning, match="left out: 4. Train again"),
        pytest.raises(InputError, match="User odd has no event with an item that this run knows"),
    ):
        whence.recommend(run, user="odd", data=newer)
    with pytest.warns(UserWarning, match="does not know"):
        assert whence.recommend_all(run, tmp_path / "all.parquet", data=newer, k=2) == 20


def test_other_items_are_refused(csv: Path, tmp_path: Path) -> None:
    run = trained(csv, tmp_path / "run")
    other = pa.table({"user": [1, 1], "item": ["x", "y"]})
    with pytest.raises(InputError, match="No item of these data is in the catalog.*like x, y"):
        run.with_data(other, whence.ReadOptions(user="user", item="item", time="none"))


def test_columns_are_read_as_in_training_or_as_told(csv: Path, tmp_path: Path) -> None:
    write(csv, rows(), header="buyer,sku,at\n")
    run = trained(whence.load(csv, whence.ReadOptions("buyer", "sku", "at")), tmp_path / "run")
    assert run.with_data(csv).interactions.user_count == 9
    other = write(tmp_path / "other.csv", rows(), header="who,what,when\n")
    with pytest.raises(InputError, match="has no column 'buyer' for the user"):
        run.with_data(other)
    options = whence.ReadOptions("who", "what", "when")
    assert not run.with_training_data(other, options).newer


def test_filters_of_events_hold_for_newer_data_and_filters_by_counts_do_not(
    csv: Path, tmp_path: Path
) -> None:
    rated = [line.replace("\n", f",{5 - (n % 7 == 0)}\n") for n, line in enumerate(rows())]
    header = "user,item,time,rating\n"
    write(csv, rated, header)
    filters = whence.Preparation(min_rating=4.5, min_user_events=3)
    run = trained(whence.load(csv, None, filters), tmp_path / "run")
    assert run.with_training_data(csv).interactions.content_hash == run.data["hash"]
    newer = run.with_data(write(csv, [*rated, "new,3,1,5\n", "new,4,2,1\n"], header))
    assert newer.newer
    assert whence.recommend(newer, user="new").history_ids == (3,)


def test_titles_may_change_and_the_data_are_still_those_of_the_training(
    csv: Path, tmp_path: Path
) -> None:
    items = write(tmp_path / "items.csv", [f"{i},Film {i}\n" for i in range(8)], "item,title\n")
    run = trained(whence.load(csv, whence.ReadOptions(items=items)), tmp_path / "run")
    assert not run.with_training_data(csv).newer
    audit = whence.audit(run, data=csv, stages=["accuracy"], cases=5, show_progress=False)
    assert audit.command.startswith("whence audit")


def test_an_audit_needs_the_data_of_the_training(csv: Path, tmp_path: Path) -> None:
    run = trained(csv, tmp_path / "run")
    write(csv, [*rows(), "3,7,900\n"])
    with pytest.raises(InputError, match="not the data that the run was trained on"):
        whence.audit(run, data=csv, show_progress=False)
    with pytest.raises(InputError, match="An audit needs the data that the run was trained on"):
        whence.audit(run.with_data(csv), show_progress=False)


def test_a_model_of_known_users_keeps_their_numbers(csv: Path, tmp_path: Path) -> None:
    run = trained(csv, tmp_path / "run", model="gmf", model_settings={"dim": 4})
    expected = whence.recommend(run, user=3)
    newer = write(csv, ["new,1,1\n", *reversed(rows()), "3,7,900\n"])
    found = whence.recommend(run, user=3, data=newer)
    scores = {one.item: one.score for one in expected.picks}
    assert {one.item: one.score for one in found.picks} == {
        item: score for item, score in scores.items() if item != 7
    }
    with pytest.raises(InputError, match="No user has the id 'new'"):
        whence.recommend(run, user="new", data=newer)
    (copy,) = (tmp_path / "cache" / "data").iterdir()
    copy.rename(tmp_path / "gone")
    with pytest.raises(InputError, match="gmf recommends only to users it was trained on"):
        run.with_data(newer)


def test_the_command_line_takes_newer_data(csv: Path, tmp_path: Path) -> None:
    trained(csv, tmp_path / "run")
    newer = write(tmp_path / "new.csv", [*rows(), "new,3,1\n", "new,99,2\n"])
    done = command("recommend", tmp_path / "run", "--user", "new", "--data", newer, "--json")
    assert json.loads(done.stdout)["history"] == [{"item": 3, "title": "item 3"}]
    assert "note: The run does not know 1 of the 9 items" in done.stderr
    done = command("explain", tmp_path / "run", "--user", "new", "--data", newer)
    assert done.returncode == 0, done.stderr
    piped = write(tmp_path / "piped.csv", [line.replace(",", "|") for line in rows()], "w|x|y\n")
    order = ("--user", 3, "--data", piped, "--reading", "user=w,item=x,time=y")
    assert command("recommend", tmp_path / "run", *order).returncode == 0
    for wrong, said in (
        (("--reading", "user=w"), "Give --data, too"),
        (("--data", newer, "--origin", "abc"), "give one of them"),
        (("--data", newer, "--reading", "usr=w"), "did you mean 'user'"),
        (("--origin", "abc"), "--origin "),
    ):
        done = command("recommend", tmp_path / "run", "--user", 3, *wrong)
        assert done.returncode == 2
        assert said in done.stderr
    code = done.stderr.strip().removesuffix(".").rpartition(" ")[2]
    done = command("recommend", tmp_path / "run", "--user", 3, "--origin", code)
    assert done.returncode == 0, done.stderr
