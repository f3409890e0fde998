from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import whence
from whence.contract import ALL
from whence.data import Interactions
from whence.errors import InputError, RunError
from whence.run import Run, open_run


def copy_of(run: Run, tmp_path: Path) -> Path:
    assert run.folder is not None
    return Path(shutil.copytree(run.folder, tmp_path / "copy"))


def test_opened_again_it_scores_the_same(run: Run) -> None:
    assert run.folder is not None
    again = open_run(run.folder)
    batch = torch.tensor([[1, 2, 3]])
    for seed in (0, 1):
        one, two = run.models[seed].score(batch, ALL), again.models[seed].score(batch, ALL)
        assert torch.equal(one, two)
    assert again.metrics[1]["test"]["recall@10"] == run.metrics[1]["test"]["recall@10"] | {
        "interval": list(run.metrics[1]["test"]["recall@10"]["interval"]),
        "range": list(run.metrics[1]["test"]["recall@10"]["range"]),
    }
    assert again.interactions.content_hash == run.data["hash"]
    assert again.catalog.table.equals(run.catalog.table)


def test_the_folder_is_as_decided(run: Run) -> None:
    assert run.folder is not None
    files = sorted(
        path.relative_to(run.folder).as_posix() for path in run.folder.rglob("*") if path.is_file()
    )
    assert files == [
        "catalog.parquet",
        "manifest.json",
        "run.json",
        "seeds/0/metrics.json",
        "seeds/0/weights.safetensors",
        "seeds/1/metrics.json",
        "seeds/1/weights.safetensors",
    ]
    described = json.loads((run.folder / "run.json").read_text())
    assert described["model_settings"]["dim"] == 16
    assert described["training"]["steps"] == 300
    assert described["seeds"] == [0, 1]
    assert set(json.loads((run.folder / "manifest.json").read_text())["sha256"]) == (
        set(files) - {"manifest.json"}
    )


def test_snapshots_are_models_of_the_run(interactions: Interactions, tmp_path: Path) -> None:
    data = interactions.save(tmp_path / "data")
    trained = whence.train(
        data,
        model_settings={"dim": 8, "max_len": 4},
        training={"steps": 6, "snapshots": 3},
        seeds=2,
        out=tmp_path / "run",
        show_progress=False,
    )
    batch = torch.tensor([[1, 2, 3]])
    for run in (trained, open_run(tmp_path / "run")):
        assert {seed: sorted(kept) for seed, kept in run.snapshots.items()} == {
            0: [0, 3, 6],
            1: [0, 3, 6],
        }
        last, first = run.at(6, seed=1).score(batch, ALL), run.at(0, seed=1).score(batch, ALL)
        assert torch.equal(last, run.models[1].score(batch, ALL))
        assert not torch.equal(first, last)
        with pytest.raises(InputError, match="no snapshot at step 5; it has 0, 3, 6"):
            run.at(5)


def test_snapshots_need_a_place(interactions: Interactions) -> None:
    with pytest.raises(InputError, match="snapshots are kept in the run folder"):
        whence.train(interactions, training={"snapshots": 3}, show_progress=False)


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


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run"):
        open_run(tmp_path)


def test_an_existing_folder_is_kept_unless_told(run: Run, tmp_path: Path) -> None:
    folder = copy_of(run, tmp_path)
    with pytest.raises(InputError, match="is there already"):
        run.save(folder)
    (folder / "old").touch()
    run.save(folder, overwrite=True)
    assert not (folder / "old").exists()
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


def test_other_data_under_the_same_name_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item\n" + "".join(f"{u},{i}\n" for u in range(9) for i in range(5)))
    settings = {"max_len": 4, "dim": 8}
    trained = whence.train(
        whence.load(path),
        model_settings=settings,
        training={"steps": 1},
        out=tmp_path / "run",
        show_progress=False,
    )
    assert trained.folder is not None
    assert open_run(trained.folder).interactions.user_count == 9
    path.write_text("user,item\n1,1\n")
    with pytest.raises(InputError, match="not those this run was trained on"):
        _ = open_run(trained.folder).interactions


def test_settings_are_checked_before_anything_is_read() -> None:
    for wrong in ({"model_settings": {"depth": 3}}, {"training": {"epochs": 3}}, {"seeds": 0}):
        with pytest.raises(InputError):
            whence.train("no such file", **wrong)
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
    with pytest.raises(InputError, match="came from memory"):
        _ = replace(trained, loaded=None).interactions


def test_nobody_elses_folder_is_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    (tmp_path / "file").write_text("kept")
    for name in ("thesis", "file", "."):
        with pytest.raises(InputError, match="not a folder of Whence's"):
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
        if ".partial-" in path.name:
            raise KeyboardInterrupt
        return real_rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
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

    gone = replace(run, loaded=None, data={**run.data, "origin": {"source": "/nowhere/x.csv"}})
    with pytest.raises(InputError, match="no longer there; put them back, or give a history"):
        _ = gone.interactions
