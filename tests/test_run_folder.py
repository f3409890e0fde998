"""Run folders that changed, moved or cannot be written, and the private copy of their data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
import torch

import whence
from whence.data import Interactions
from whence.data.copies import describe_copies, keep_copy, open_copy
from whence.data.origins import origin_code
from whence.errors import InputError, RunError
from whence.run import Run, open_run


def copy_of(run: Run, tmp_path: Path) -> Path:
    assert run.folder is not None
    return Path(shutil.copytree(run.folder, tmp_path / "copy"))


def test_a_changed_file_is_refused(run: Run, tmp_path: Path) -> None:
    folder = copy_of(run, tmp_path)
    path = folder / "seeds" / "0" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(RunError, match="weights.safetensors has changed"):
        open_run(folder)


def test_a_missing_file_is_refused(run: Run, tmp_path: Path) -> None:
    folder = copy_of(run, tmp_path)
    (folder / "catalog.parquet").unlink()
    with pytest.raises(RunError, match="catalog.parquet is missing"):
        open_run(folder)


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"format": 99, "sha256": {}}', '{"format": 1, "sha256": []}']
)
def test_a_broken_manifest_is_refused(run: Run, tmp_path: Path, content: str) -> None:
    folder = copy_of(run, tmp_path)
    (folder / "manifest.json").write_text(content)
    with pytest.raises(RunError):
        open_run(folder)


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        open_run(tmp_path)


def test_an_existing_folder_is_kept_unless_overwrite_is_given(run: Run, tmp_path: Path) -> None:
    folder = copy_of(run, tmp_path)
    with pytest.raises(InputError, match="already exists"):
        run.save(folder)
    (folder / "notes").touch()
    with pytest.raises(InputError, match="Whence did not write notes in it"):
        run.save(folder, overwrite=True)
    (folder / "notes").unlink()
    run.save(folder, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    open_run(folder)


def test_a_failed_write_leaves_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("whence.run.save_weights", full_disk)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        run.save(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Events in a file, and a cache of their own."""
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "events.csv"
    path.write_text("user,item\n" + "".join(f"{u},{i}\n" for u in range(9) for i in range(5)))
    return path


def train_tiny(data: Path | Interactions, out: Path | None = None) -> Run:
    return whence.train(
        data,
        model_settings={"max_len": 4, "dim": 8},
        training={"steps": 1},
        out=out,
        show_progress=False,
    )


def only_copy(tmp_path: Path) -> Path:
    (copy,) = (tmp_path / "cache" / "data").iterdir()
    return copy


def test_a_run_serves_its_users_without_the_file(csv: Path, tmp_path: Path) -> None:
    trained = train_tiny(csv, tmp_path / "run")
    expected = whence.recommend(trained, user=3).as_dict()
    for change in (lambda: csv.write_text("user,item\n1,1\n"), csv.unlink):
        change()
        again = open_run(tmp_path / "run")
        assert whence.recommend(again, user=3).as_dict() == expected
        assert again.interactions.origin == trained.data["origin"]
    copy = only_copy(tmp_path)
    assert copy.name == trained.data["hash"]
    for folder in (copy, copy.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_without_a_copy_the_data_are_named(csv: Path, tmp_path: Path) -> None:
    expected = whence.recommend(train_tiny(csv, tmp_path / "run"), user=3).as_dict()
    shutil.rmtree(tmp_path / "cache")
    run = open_run(tmp_path / "run")
    with pytest.raises(InputError, match="not here. Name them with --data.*events.csv") as shown:
        _ = run.interactions
    assert whence.recommend(run, user=3, data=csv).as_dict() == expected
    code = str(shown.value).removesuffix(".").rpartition(" ")[2]
    assert whence.recommend(run.with_origin(code), user=3).as_dict() == expected
    with pytest.raises(InputError, match="The code 'abc' is not that of the origin. Their origin"):
        run.with_origin("abc")


@pytest.mark.parametrize("damage", ["changed", "incomplete", "of other data"])
def test_a_damaged_copy_is_removed_and_written_by_the_next_training(
    csv: Path, tmp_path: Path, damage: str
) -> None:
    train_tiny(csv, tmp_path / "run")
    copy = only_copy(tmp_path)
    sound = (copy / "items.npy").read_bytes()
    if damage == "changed":
        (copy / "items.npy").write_bytes(sound[:-4] + b"\1\0\0\0")
    elif damage == "incomplete":
        (copy / "offsets.npy").unlink()
    else:
        other = whence.load(pa.table({"user": [1, 1], "item": [1, 2]}))
        shutil.rmtree(copy)
        other.save(copy)
    with (
        pytest.warns(UserWarning, match="A damaged copy of the data is ignored"),
        pytest.raises(InputError, match="not here"),
    ):
        _ = open_run(tmp_path / "run").interactions
    assert not copy.exists()
    train_tiny(csv, tmp_path / "again")
    assert (only_copy(tmp_path) / "items.npy").read_bytes() == sound
    assert open_run(tmp_path / "run").interactions.user_count == 9


def test_data_from_memory_are_kept_too(csv: Path, tmp_path: Path) -> None:
    frame = pa.table({"user": ["a", "a", "a", "b", "b"], "item": [1, 2, 3, 3, 1]})
    expected = whence.recommend(train_tiny(whence.load(frame), tmp_path / "run"), user="b")
    assert whence.recommend(open_run(tmp_path / "run"), user="b").as_dict() == expected.as_dict()


def test_named_and_prepared_data_are_copied_too(
    csv: Path, tmp_path: Path, interactions: Interactions
) -> None:
    prepared = whence.load(csv).save(tmp_path / "prepared")
    train_tiny(prepared, tmp_path / "run")
    train_tiny(interactions, tmp_path / "world")
    shutil.rmtree(prepared)
    assert open_run(tmp_path / "run").interactions.user_count == 9
    world = open_run(tmp_path / "world").interactions
    assert (world.user_count, world.origin["world"]["seed"]) == (300, 3)


def test_a_cache_that_cannot_be_written_is_a_warning(csv: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.warns(UserWarning, match="The data could not be copied"):
        train_tiny(csv, tmp_path / "run")
    assert open_run(tmp_path / "run").with_data(csv).interactions.user_count == 9


def test_processes_may_keep_the_same_copy_at_once(csv: Path, tmp_path: Path) -> None:
    code = (
        "import sys, whence; from whence.data.copies import keep_copy;"
        "data = whence.load(sys.argv[1]); sys.stdin.read(1); keep_copy(data)"
    )
    order = [sys.executable, "-W", "error", "-c", code, str(csv)]
    running = [subprocess.Popen(order, stdin=subprocess.PIPE) for _ in range(2)]
    for one in running:
        assert one.stdin is not None
        one.stdin.write(b"x")
        one.stdin.flush()
    for one in running:
        one.communicate()
    assert [one.returncode for one in running] == [0, 0]
    assert open_copy(only_copy(tmp_path).name) is not None


def test_losing_the_race_for_a_copy_is_silent(
    csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = whence.load(csv)
    write_files = Interactions.write_files

    def slow(data: Interactions, folder: Path) -> None:
        for each in (folder, folder.parent / data.content_hash):  # another process is faster
            each.mkdir(exist_ok=True)
            write_files(data, each)

    monkeypatch.setattr(Interactions, "write_files", slow)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        keep_copy(data)
    assert only_copy(tmp_path).name == data.content_hash


def test_only_a_hash_is_looked_up(csv: Path, tmp_path: Path) -> None:
    whence.load(csv).save(tmp_path / "cache" / "elsewhere")
    (tmp_path / "cache" / "data").mkdir()
    assert open_copy("../elsewhere") is None
    assert (tmp_path / "cache" / "elsewhere").exists()


def test_what_a_killed_process_left_is_removed(csv: Path, tmp_path: Path) -> None:
    left = tmp_path / "cache" / "data" / ".partial-x"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    keep_copy(whence.load(csv))
    assert only_copy(tmp_path).name == whence.load(csv).content_hash
    assert "1 copy" in describe_copies()


def test_a_run_prints_in_short(run: Run) -> None:
    assert repr(run) == f"Run: 2 seeds of sasrec on world, in {run.folder}"
    html = run._repr_html_()
    more = "More than accuracy, on test events"
    for text in ("Run of sasrec", "300 users", "Accuracy on test events", "NDCG@10", more):
        assert text in html
    document = json.loads(run.to_json())
    assert document["model_settings"]["dim"] == 16
    assert document["metrics"]["1"]["test"]["recall@10"]["n"] == 300
    assert run.folder is not None
    assert Run.load(run.folder).to_json() == run.to_json()


def test_show_prints_the_accuracy_of_each_seed(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    run.show()
    printed = capsys.readouterr().out
    for seed in (0, 1):
        assert f"{run.metrics[seed]['test']['NDCG@10']['value']:.3f}" in printed


def test_a_reopened_run_ranks_titles_by_popularity(run: Run) -> None:
    assert run.folder is not None
    again = open_run(run.folder)
    assert again.catalog.popularity is not None
    assert run.catalog.popularity is not None
    assert again.catalog.popularity.tolist() == run.catalog.popularity.tolist()
    assert again.catalog.popularity.sum() == run.data["events"]


def test_settings_are_checked_before_anything_is_read() -> None:
    for wrong in ({"model_settings": {"depth": 3}}, {"training": {"epochs": 3}}, {"seeds": 0}):
        with pytest.raises(InputError):
            whence.train("no such file", **wrong)
    with pytest.raises(InputError, match="SASRecConfig needs a table of settings, not 3"):
        whence.train("no such file", model_settings=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="TrainingConfig needs a table of settings, not 3"):
        whence.train("no such file", training=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no model 'sasrek': did you mean 'sasrec'"):
        whence.train("no such file", model="sasrek")


def test_data_from_memory_cannot_be_read_again(interactions: Interactions) -> None:
    from dataclasses import replace

    unnamed = replace(interactions, origin={})
    trained = whence.train(
        unnamed,
        model_settings={"max_len": 4, "dim": 8},
        training={"steps": 1},
        show_progress=False,
    )
    assert trained.interactions is unnamed
    data = {**trained.data, "hash": "0" * 64}
    with pytest.raises(InputError, match="not here.*They came from memory"):
        _ = replace(trained, data=data, loaded=None).interactions


def test_a_foreign_folder_is_never_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "file").write_text("kept")
    for name in ("thesis", "file", "."):
        with pytest.raises(InputError, match="was not written by Whence"):
            run.save(tmp_path / name, overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"
    assert (tmp_path / "file").read_text() == "kept"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failed_overwrite_keeps_what_was_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copy_of(run, tmp_path)
    real_rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if "-partial-" in path.name:
            raise KeyboardInterrupt
        return real_rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())  # which cannot swap folders
    with pytest.raises(KeyboardInterrupt):
        run.save(folder, overwrite=True)
    monkeypatch.undo()
    open_run(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_a_place_that_cannot_be_written_is_noticed_before_training(
    interactions: Interactions, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        whence.train(interactions, training={"steps": 10**9}, out=tmp_path / "file" / "run")


def test_a_run_says_where_it_was_trained(run: Run) -> None:
    assert run.training["device"] == "cpu"
    assert run.training["threads"] == torch.get_num_threads()


def test_data_that_moved_are_said_to_have_moved(run: Run) -> None:
    from dataclasses import replace

    origin = {"source": "/nowhere/x.csv"}
    gone = replace(run, loaded=None, data={**run.data, "hash": "0" * 64, "origin": origin})
    with pytest.raises(InputError, match="no longer in /nowhere/x.csv. Name them"):
        gone.with_origin(origin_code(origin))
