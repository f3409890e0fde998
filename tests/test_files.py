"""Folders and files that are there whole or not at all, and JSON that strangers wrote."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fuzz.forking import KILLED, content, end, start
from whence.errors import InputError, OutputError
from whence.files import (
    LARGEST_JSON,
    MANIFEST,
    check_can_write,
    claim_folder,
    new_file,
    new_folder,
    read_document,
    read_json,
    write_json,
)

FIXTURES = Path(__file__).parent / "fixtures" / "v01"
Work = Callable[[], object]


def write(folder: Path, text: str, overwrite: bool = False) -> None:
    """Write a folder of a kind that Whence knows as its own."""
    with new_folder(folder, overwrite) as partial:
        (partial / "deep").mkdir()
        (partial / "deep" / "data.csv").write_text(text)
        write_json(
            partial / MANIFEST, {"whence": "1", "files": ["deep/data.csv"], "said": len(text)}
        )


def text_of(folder: Path) -> str:
    return (folder / "deep" / "data.csv").read_text()


def without_swap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a system that cannot swap two folders."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())


@pytest.fixture(params=["swap", "two renames"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "swap":
        without_swap(monkeypatch)
    return str(request.param)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory if there is one, where flushing takes no time."""
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder) / "place"


def kill_everywhere(work: Work, place: Path, reset: Work) -> int:
    """Kill the work before each of its changes; the next try must end as if nothing had been."""
    reset()
    assert end(start(work)) == 0
    expected = content(place)
    assert not any(name.startswith(".") for name in expected)
    moment = 0
    while True:
        moment += 1
        reset()
        before = content(place)
        code = end(start(work, kill_at=moment))
        if code == 0:
            return moment - 1
        assert code == KILLED
        done = content(place)
        assert "run" not in before or "run" in done or any("former" in name for name in done)
        again = end(start(work))
        # Killed after everything was done and tidied up, it may say that the folder exists.
        assert again == 0 or (again == 2 and done == expected), moment
        assert content(place) == expected, moment


def test_a_new_folder_killed_at_any_moment(place: Path) -> None:
    def reset() -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()

    assert kill_everywhere(lambda: write(place / "run", "new"), place, reset) >= 8


def test_a_replaced_folder_killed_at_any_moment(place: Path, system: str) -> None:
    def reset() -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        write(place / "run", "old text")

    work = lambda: write(place / "run", "new", overwrite=True)  # noqa: E731
    assert kill_everywhere(work, place, reset) >= 12


def test_a_file_killed_at_any_moment(place: Path) -> None:
    def reset() -> None:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        (place / "file").write_text("old")
        (place / ".other.whence-partial-0123456789abcdef").write_text("of another file")
        (place / ".file.whence-partial-mine").write_text("not a name of ours")

    def work() -> None:
        with new_file(place / "file") as partial:
            partial.write_text("new")

    reset()
    work()
    expected = content(place)
    assert sorted(expected) == [
        ".file.whence-partial-mine", ".other.whence-partial-0123456789abcdef", "file",
    ]  # fmt: skip
    for moment in range(1, 9):
        reset()
        if end(start(work, kill_at=moment)) == 0:
            break
        assert (place / "file").read_text() in ("old", "new")
        assert end(start(work)) == 0
        assert content(place) == expected
    assert moment > 3


def test_other_content_after_a_kill_is_not_taken_for_the_same(tmp_path: Path) -> None:
    def killed() -> None:
        with claim_folder(tmp_path / "run"):
            write(tmp_path / "run", "one")
            os.kill(os.getpid(), 9)

    assert end(start(killed)) == KILLED
    with pytest.raises(InputError, match="already exists"):
        write(tmp_path / "run", "other")
    assert text_of(tmp_path / "run") == "one"
    write(tmp_path / "run", "one")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    with pytest.raises(InputError, match="already exists"):
        write(tmp_path / "run", "one")


def test_after_any_error_the_former_content_is_there(tmp_path: Path, system: str) -> None:
    write(tmp_path / "run", "old")
    for error in (RuntimeError, KeyboardInterrupt, OSError):
        with pytest.raises((error, OutputError)), new_folder(tmp_path / "run", overwrite=True):
            raise error
    assert text_of(tmp_path / "run") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_that_an_older_version_was_replacing_is_back(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "run", tmp_path / ".run.former-4711")
    for name in (".run.former-4712", ".run.partial-4711", ".run.former-x"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="already exists"):
        write(tmp_path / "run", "new")
    assert content(tmp_path / "run") == content(FIXTURES / "run")
    assert len(list(tmp_path.iterdir())) == 4, "what is not clearly ours stays"


@pytest.mark.parametrize("overwrite", [False, True])
def test_all_is_on_the_disk_before_it_has_its_name(
    overwrite: bool, tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if overwrite:
        write(tmp_path / "run", "old")
    done: list[str] = []
    fsync, rename, library = os.fsync, os.rename, ctypes.CDLL

    def name_of(path: object) -> str:
        short = Path(os.fsdecode(path)).relative_to(tmp_path).as_posix()  # type: ignore[arg-type]
        kinds = ("partial", "former", "lock")
        return next((f"{one}{short.partition('/')[1]}{short.partition('/')[2]}"
                     for one in kinds if f"whence-{one}" in short), short)  # fmt: skip

    def noted_fsync(file: int) -> None:
        done.append(f"flush {name_of(Path(f'/proc/self/fd/{file}').readlink())}")
        fsync(file)

    def noted_rename(one: Path, other: Path) -> None:
        done.append(f"{name_of(one)} to {name_of(other)}")
        rename(one, other)

    class Library:
        def __init__(self, *given: object, **more: object) -> None:
            self.real = library(*given, **more)  # type: ignore[arg-type]

        def renameat2(self, *given: object) -> object:
            done.append("swap")
            return self.real.renameat2(*given)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    if system == "swap":
        monkeypatch.setattr(ctypes, "CDLL", Library)
    write(tmp_path / "run", "new", overwrite)
    assert {*done[1:5]} == {
        f"flush partial{name}" for name in ("", "/deep", "/deep/data.csv", f"/{MANIFEST}")
    }
    assert done.index("flush partial/deep/data.csv") < done.index("flush partial/deep")
    assert done[4] == "flush partial"
    renamed = ["swap"] if system == "swap" else ["run to former", "partial to run"]
    assert done[5:] == ["flush lock", *(renamed if overwrite else ["partial to run"]), "flush ."]


def test_a_file_is_on_the_disk_unless_it_need_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(file: int) -> None:
        done.append("flush")
        fsync(file)

    def noted_replace(one: Path, other: Path) -> None:
        done.append("name")
        replace(one, other)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    for durable in (True, False):
        with new_file(tmp_path / "file", durable=durable) as partial:
            partial.write_text("x")
    assert done == ["flush", "name", "flush", "name"]


def test_only_what_whence_wrote_is_replaced(tmp_path: Path) -> None:
    for name in ("run", "prepared"):
        folder = Path(shutil.copytree(FIXTURES / name, tmp_path / name))
        (folder / ".DS_Store").touch()
        check_can_write(folder, overwrite=True)
        (folder / "seeds").mkdir(exist_ok=True)
        (folder / "seeds" / "notes.txt").write_text("thoughts")
        with pytest.raises(InputError, match="Whence did not write seeds/notes.txt in it. Move"):
            write(folder, "new", overwrite=True)
        (folder / "seeds" / "notes.txt").unlink()
        (folder / "seeds" / "link").symlink_to(tmp_path)
        with pytest.raises(InputError, match="Whence did not write seeds/link"):
            check_can_write(folder, overwrite=True)
        (folder / "seeds" / "link").unlink()
        write(folder, "new", overwrite=True)
        assert text_of(folder) == "new"


@pytest.mark.parametrize(
    "manifest",
    [
        "[]",
        "{}",
        "{",
        '{"format": {}}',
        '{"format": 1, "sha256": []}',
        '{"format": 1, "sha256": {"thesis.txt": "x"}}',
        '{"format": "1", "hash": "x", "users": 1, "items": 1, "events": 1}',
        '{"whence": 1, "files": ["thesis.txt"]}',
        '{"manifest_version": 3, "name": "an extension of a browser"}',
        "[" * 100_000,
    ],
)
def test_another_manifest_makes_no_folder_of_whence(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / MANIFEST).write_text(manifest)
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="was not written by Whence, so it is not overwritten"):
        write(tmp_path / "mine", "new", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(InputError, match=f"{name} is a symbolic link, which is not replaced"):
            write(tmp_path / name, "new", overwrite=True)
    assert text_of(tmp_path / "real") == "old"
    (tmp_path / ".new.whence-lock").symlink_to(tmp_path / "real" / MANIFEST)
    with pytest.raises(OutputError, match="new cannot be written"):
        write(tmp_path / "new", "new")
    assert len(list(tmp_path.iterdir())) == 4


def test_no_device_or_pipe_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="is not a file"), new_file(tmp_path / "pipe"):
        pass
    os.mkfifo(tmp_path / ".run.whence-lock")
    with pytest.raises(OutputError, match="run cannot be written"):
        write(tmp_path / "run", "x")
    with pytest.raises(InputError, match="already exists"):
        write(Path("/"), "x")


def test_json_of_a_stranger_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / MANIFEST
    for content_, said in (
        (b"[1]", "does not hold a JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a": "\xff"}', "is not valid UTF-8"),
        (b"1" * 5_000, "cannot be read as JSON"),
    ):
        path.write_bytes(content_)
        with pytest.raises(InputError, match=said):
            read_json(path)
    with path.open("wb") as file:
        file.truncate(LARGEST_JSON + 1)
    with pytest.raises(InputError, match="is too large: it may have 64 MB"):
        read_json(path)
    path.unlink()
    os.mkfifo(path)
    for other in (path, tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match="is not a regular file|is a folder"):
            read_json(other)
    with pytest.raises(InputError, match="No such file"):
        read_json(tmp_path / "none")
    (tmp_path / "list").write_text(json.dumps([1, 2]))
    assert read_document(tmp_path / "list") == [1, 2]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("kept")
    for name, target in (("link", "private"), ("dangling", "nothing")):
        (tmp_path / name).symlink_to(tmp_path / target)
        with new_file(tmp_path / name) as partial:
            partial.write_text("new")
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "private").read_text() == "kept"
    assert not (tmp_path / "nothing").exists()
