"""Several processes or threads that write the same output: one whole result, one refusal each."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from command_line import whence
from fuzz.forking import content, end, start
from test_files import text_of, write
from whence.data import Interactions
from whence.data.copies import keep_copy
from whence.errors import BusyError, OutOfTime
from whence.files import MANIFEST, claim_folder, new_file, new_folder, read_json
from whence.locks import abandoned, hold, lock, lock_file

SMALL = "steps=60,dim=4,max_len=4,batch_size=16,snapshots=3"


def as_in_containers() -> None:
    """Give this process the id that the first process of every container has."""
    os.getpid = lambda: 1


@pytest.mark.parametrize("count", [2, 8])
def test_of_processes_with_the_same_id_one_writes_and_the_others_are_refused(
    count: int, tmp_path: Path
) -> None:
    read, go = os.pipe()

    def work(number: int) -> None:
        as_in_containers()
        os.close(go)
        os.read(read, 1)  # until all have been started
        with new_folder(tmp_path / "run") as partial:
            write_slowly(partial, str(number) * 1000)

    children = [start(lambda number=number: work(number)) for number in range(count)]  # type: ignore[misc]
    os.close(read)
    os.close(go)
    codes = [end(child) for child in children]
    assert sorted(codes) == [0] + [2] * (count - 1)
    assert text_of(tmp_path / "run") == str(codes.index(0)) * 1000
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def write_slowly(partial: Path, text: str) -> None:
    (partial / "deep").mkdir()
    time.sleep(0.3)
    (partial / "deep" / "data.csv").write_text(text)
    time.sleep(0.3)
    (partial / MANIFEST).write_text('{"whence": "1", "files": ["deep/data.csv"]}')


def test_of_threads_one_writes_and_the_others_are_refused(tmp_path: Path) -> None:
    all_here = threading.Barrier(8)

    def work(number: int) -> str:
        all_here.wait()
        try:
            with new_folder(tmp_path / "run", overwrite=True) as partial:
                write_slowly(partial, str(number))
        except BusyError as problem:
            return str(problem)
        return ""

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(work, range(8)))
    assert said.count("") == 1
    assert text_of(tmp_path / "run") == str(said.index(""))
    refused = next(filter(None, said))
    assert refused == (
        f"{tmp_path}/run is being written by another process. Wait for it, or choose another "
        "folder."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_the_living_are_told_from_the_dead_by_their_lock(tmp_path: Path) -> None:
    def die_in_the_middle() -> None:
        with new_folder(tmp_path / "run") as partial:
            (partial / "half").touch()
            os.kill(os.getpid(), 9)

    end(start(die_in_the_middle))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2, "the lock file and the folder that it names"
    with lock(tmp_path / "run"):
        assert [path.name for path in tmp_path.iterdir()] == [".run.whence-lock"]
        assert end(start(lambda: write(tmp_path / "run", "x"))) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_reader_always_finds_a_whole_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write(folder, "0")

    def replace() -> None:
        for number in range(60):
            write(folder, str(number), overwrite=True)

    child = start(replace)
    reads = 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        assert read_json(folder / MANIFEST)["whence"] == "1"
        reads += 1
    assert reads > 60
    assert text_of(folder) == "59"


def test_files_written_at_once_are_whole(tmp_path: Path) -> None:
    def work(number: int) -> None:
        as_in_containers()
        for _ in range(100):
            with new_file(tmp_path / "file", durable=False) as partial:
                partial.write_text(str(number) * 10_000)

    children = [start(lambda number=number: work(number)) for number in range(4)]  # type: ignore[misc]
    assert [end(child) for child in children] == [0] * 4
    text = (tmp_path / "file").read_text()
    assert text == text[0] * 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_lock_can_be_waited_for(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with lock(tmp_path / "run", wait=True):
            order.append("second")

    with lock(tmp_path / "run"):
        with lock(tmp_path / "run"):  # again in the same thread
            thread = threading.Thread(target=second)
            thread.start()
        with ThreadPoolExecutor(1) as pool, pytest.raises(OutOfTime):
            pool.submit(lambda: lock(tmp_path / "run", True, 0.0).__enter__()).result()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert not lock_file(tmp_path / "run").exists()


def test_a_held_folder_is_not_abandoned(tmp_path: Path) -> None:
    with hold(tmp_path), abandoned(tmp_path) as held, abandoned(tmp_path / "gone") as gone:
        assert not held
        assert not gone
    with abandoned(tmp_path) as left:
        assert left


def test_copies_kept_at_once_leave_nothing_behind(
    interactions: Interactions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path))

    def die_in_the_middle() -> None:
        Interactions.write_files = lambda *_: os.kill(os.getpid(), 9)  # type: ignore[method-assign]
        keep_copy(interactions)

    end(start(die_in_the_middle))
    assert len(list((tmp_path / "data").iterdir())) == 1
    children = [start(lambda: keep_copy(interactions)) for _ in range(3)]
    assert [end(child) for child in children] == [0] * 3
    assert [path.name for path in (tmp_path / "data").iterdir()] == [interactions.content_hash]


def test_of_two_trainings_at_once_one_is_refused(
    interactions: Interactions, tmp_path: Path
) -> None:
    data = interactions.save(tmp_path / "data")
    runs = tmp_path / "runs"

    def train(name: str, out: Path) -> None:
        done = whence(
            "train", data, "--out", out / "run", "--set", SMALL, "--overwrite", cwd=tmp_path
        )
        (tmp_path / name).write_text(done.stderr)
        os._exit(done.returncode)

    assert end(start(lambda: train("calm", tmp_path / "alone"))) == 0
    children = [start(lambda name=name: train(name, runs)) for name in ("one", "two")]  # type: ignore[misc]
    codes = [end(child) for child in children]
    assert sorted(codes) == [0, 2]
    refused = (tmp_path / ("one", "two")[codes.index(2)]).read_text()
    assert "run is being written by another process. Wait for it" in refused
    assert content(runs) == content(tmp_path / "alone")


def test_a_claim_covers_the_work_before_the_folder(tmp_path: Path) -> None:
    with claim_folder(tmp_path / "run"):
        assert end(start(lambda: write(tmp_path / "run", "theirs", overwrite=True))) == 2
        write(tmp_path / "run", "mine")
    assert text_of(tmp_path / "run") == "mine"
