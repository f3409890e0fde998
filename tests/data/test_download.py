"""Downloads from a real server on this machine: ranges, truncation, changes, a kill."""

from __future__ import annotations

import io
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from publisher import CONTENT, SHA256, Publisher, get, publishing
from whence.data import get as get_named
from whence.data import load
from whence.data.download import download
from whence.errors import InputError


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with publishing() as made:
        yield made


def test_a_whole_file(publisher: Publisher, tmp_path: Path) -> None:
    assert get(publisher, tmp_path / "deep" / "file.bin") == CONTENT
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["file.bin"]


def test_a_line_that_goes_dead_is_taken_up_again(publisher: Publisher, tmp_path: Path) -> None:
    publisher.cut_after = [1_000_000, 500_000]
    assert get(publisher, tmp_path / "file.bin") == CONTENT
    assert publisher.asked == [None, "bytes=1000000-", "bytes=1500000-"]


def test_a_line_that_stays_dead_gives_a_clear_error_and_resumes_next_time(
    publisher: Publisher, tmp_path: Path
) -> None:
    path = tmp_path / "file.bin"
    publisher.cut_after = [1_000_000, 0, 0]
    with pytest.raises(InputError, match="ended after 1,000,000 of 3,000,000 bytes.*put it at"):
        get(publisher, path)
    left = {one.name for one in tmp_path.iterdir()}
    assert left == {"file.bin.part", "file.bin.part.json"}
    assert get(publisher, path) == CONTENT
    assert [one.name for one in tmp_path.iterdir()] == ["file.bin"]
    assert publisher.asked[-1] == "bytes=1000000-"


def test_a_server_without_ranges_begins_again(publisher: Publisher, tmp_path: Path) -> None:
    publisher.ranges_known = False
    publisher.cut_after = [1_000_000]
    assert get(publisher, tmp_path / "file.bin") == CONTENT


def cut(publisher: Publisher, path: Path, after: int, checksum: str | None = None) -> None:
    """Leave the first bytes of a download."""
    publisher.cut_after = [after]
    with pytest.raises(InputError):
        get(publisher, path, checksum, pauses=())
    assert path.with_name("file.bin.part").stat().st_size == after


def test_a_part_that_is_whole_already_is_kept(publisher: Publisher, tmp_path: Path) -> None:
    cut(publisher, tmp_path / "file.bin", 1_000_000)
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    publisher.asked.clear()
    assert get(publisher, tmp_path / "file.bin") == CONTENT
    assert publisher.asked == ["bytes=3000000-"]


def test_a_server_that_sends_another_part_is_not_believed(
    publisher: Publisher, tmp_path: Path
) -> None:
    publisher.ranges_wrong = True
    publisher.cut_after = [1_000_000]
    with pytest.raises(InputError, match="the server sent bytes 0-.*, not from 1,000,000"):
        get(publisher, tmp_path / "file.bin", checksum=None)
    assert not (tmp_path / "file.bin").exists()


def test_a_part_longer_than_the_file_starts_over(publisher: Publisher, tmp_path: Path) -> None:
    cut(publisher, tmp_path / "file.bin", 1_000_000)
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    assert get(publisher, tmp_path / "file.bin") == CONTENT


@pytest.mark.parametrize("note", [None, "", "[1]", '{"address": "another"}', '{"etag": 5}'])
def test_a_part_of_something_else_starts_over(
    publisher: Publisher, tmp_path: Path, note: str | None
) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"\0" * 1_000)
    if note is not None:
        (tmp_path / "file.bin.part.json").write_text(note)
    assert get(publisher, tmp_path / "file.bin", checksum=None) == CONTENT
    assert publisher.asked == [None]


NEW = bytes(reversed(CONTENT))


@pytest.mark.parametrize("if_range_known", [True, False])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ETag": '"first"'}, {"ETag": '"second"'}),
        ({"Last-Modified": "Mon, 01 Jan 2024"}, {"Last-Modified": "Tue, 02 Jan 2024"}),
        (
            {"ETag": 'W/"first"', "Last-Modified": "Mon"},
            {"ETag": 'W/"second"', "Last-Modified": "Tue"},
        ),
    ],
)
def test_a_file_that_changed_starts_over(
    publisher: Publisher,
    tmp_path: Path,
    before: dict[str, str],
    after: dict[str, str],
    if_range_known: bool,
) -> None:
    """Whether the server compares the validators or leaves that to us."""
    publisher.validators, publisher.if_range_known = before, if_range_known
    cut(publisher, tmp_path / "file.bin", 1_000_000)
    publisher.files["file.bin"], publisher.validators = NEW, after
    assert get(publisher, tmp_path / "file.bin", checksum=None) == NEW
    assert before.get("Last-Modified", '"first"') in publisher.conditions


def test_a_file_of_another_size_starts_over(publisher: Publisher, tmp_path: Path) -> None:
    """The server does not say that it changed, but sends more bytes."""
    cut(publisher, tmp_path / "file.bin", 1_000_000)
    publisher.files["file.bin"] = NEW[:-5]
    assert get(publisher, tmp_path / "file.bin", checksum=None) == NEW[:-5]


@pytest.mark.parametrize(("checksum", "resumed"), [(None, False), (SHA256, True)])
def test_without_validators_only_a_checksum_allows_to_resume(
    publisher: Publisher, tmp_path: Path, checksum: str | None, resumed: bool
) -> None:
    publisher.validators = {}
    cut(publisher, tmp_path / "file.bin", 1_000_000, checksum)
    publisher.asked.clear()
    assert get(publisher, tmp_path / "file.bin", checksum) == CONTENT
    assert publisher.asked == (["bytes=1000000-"] if resumed else [None])


def test_another_address_starts_over(publisher: Publisher, tmp_path: Path) -> None:
    publisher.files["old.bin"] = NEW
    publisher.cut_after = [1_000_000]
    with pytest.raises(InputError):
        download(f"{publisher.url}/old.bin", tmp_path / "file.bin", 10**7, None, (), False)
    assert get(publisher, tmp_path / "file.bin", checksum=None) == CONTENT
    assert publisher.asked == [None, None]


def test_two_files_in_one_are_noticed(publisher: Publisher, tmp_path: Path) -> None:
    cut(publisher, tmp_path / "file.bin", 1_000_000)
    publisher.files["file.bin"] = NEW
    with pytest.raises(InputError, match="its sha256 is .* but should be"):
        get(publisher, tmp_path / "file.bin")
    assert list(tmp_path.iterdir()) == [], "nothing wrong is kept"
    publisher.files["file.bin"] = CONTENT
    assert get(publisher, tmp_path / "file.bin") == CONTENT


def test_errors_of_the_moment_are_tried_again(publisher: Publisher, tmp_path: Path) -> None:
    publisher.failures = [503, 500]
    assert get(publisher, tmp_path / "file.bin") == CONTENT


@pytest.mark.parametrize("status", [403, 404, 410])
def test_errors_that_stay_are_not(publisher: Publisher, tmp_path: Path, status: int) -> None:
    publisher.failures = [status]
    with pytest.raises(InputError, match=rf"{status} .*get the file another way, put it at"):
        get(publisher, tmp_path / "file.bin")
    assert len(publisher.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_offline_one_sentence_says_which_file_to_put_where(tmp_path: Path) -> None:
    path = tmp_path / "ml-1m.zip"
    with pytest.raises(InputError, match=rf"refused.*put it at {path}"):
        download("http://127.0.0.1:1/ml-1m.zip", path, 10, None, (), show_progress=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["http://me:s3cret@h:abc/x", "http://[/x", "http://a b/x", "http:///x"]
)
def test_an_address_that_is_none_gives_a_clear_error(url: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        download(url, tmp_path / "x", 10, None, (), show_progress=False)
    assert "s3cret" not in str(caught.value)


def test_a_server_that_is_none_gives_a_clear_error(tmp_path: Path) -> None:
    """It answers with garbage, or not at all."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def answer() -> None:
            for reply in (b"garbage\r\n\r\n", b""):
                line, _ = server.accept()
                line.recv(1_000)
                line.sendall(reply)
                line.close()

        threading.Thread(target=answer, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        for _ in range(2):
            with pytest.raises(InputError, match="could not be downloaded"):
                download(url, tmp_path / "x", 10, None, (), show_progress=False)


def test_only_the_web_is_asked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a download address"):
        download("file:///etc/passwd", tmp_path / "x", 10_000)


def test_a_folder_that_cannot_be_written_gives_a_clear_error(
    publisher: Publisher, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match="cannot be written"):
        get(publisher, tmp_path / "taken" / "file.bin")


def test_two_processes_do_not_write_one_file(publisher: Publisher, tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / "file.bin.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="is being downloaded by another process"):
            get(publisher, tmp_path / "file.bin")


def archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return buffer.getvalue()


LATEST = {
    "ml-latest/ratings.csv": "userId,movieId,rating,timestamp\n"
    + "".join(f"{n % 50},{n % 97},{n % 5 + 1},{n}\n" for n in range(200_000)),
    "ml-latest/movies.csv": "movieId,title,genres\n"
    + "".join(f'{n},"Film, The {n} ({1900 + n})",Drama\n' for n in range(97)),
    "../outside.txt": "not unpacked",
}


def whence_get(publisher: Publisher, name: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "whence", "data", "get", name, "--mirror", publisher.url],
        env={**os.environ, "WHENCE_DATA": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_dataset_by_name(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.files["ml-latest.zip"] = archive(LATEST)
    process = whence_get(publisher, "ml-latest", tmp_path / "data")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "ml-latest is ready: 200,000 events of 50 users" in out
    assert "not for commercial use" in err
    assert "ml-latest.zip has no checksum: GroupLens replaces this release" in err
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path / "data"))
    data = load("ml-latest")
    assert (data.user_count, data.item_count) == (50, 97)
    assert data.catalog.labels([0]) == ["Film, The 0 (1900)"]
    assert sorted(path.name for path in tmp_path.rglob("*.txt")) == []


@pytest.mark.parametrize("given", [True, False])
def test_a_file_that_is_not_the_published_one(
    publisher: Publisher, tmp_path: Path, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from a mirror, or somebody put it here."""
    monkeypatch.setenv("WHENCE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    content = archive({"ml-1m/ratings.dat": "", "ml-1m/movies.dat": "", "ml-1m/users.dat": ""})
    publisher.files["ml-1m.zip"] = content
    if given:
        (tmp_path / "ml-1m.zip").write_bytes(content)
    with pytest.raises(InputError, match="its sha256 is .* but should be a6898adb"):
        get_named("ml-1m", publisher.url, show_progress=False)
    assert bool(publisher.asked) != given
    assert [path.name for path in tmp_path.iterdir()] == (["ml-1m.zip"] if given else [])


def test_a_file_with_other_counts_is_not_the_dataset(publisher: Publisher, tmp_path: Path) -> None:
    publisher.files["beauty.txt"] = b"1 2\n1 3\n"
    process = whence_get(publisher, "amazon-beauty-bert4rec", tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "beauty.txt holds 1 users, 2 items and 2 events" in err
    assert "Traceback" not in err


@pytest.mark.kill
def test_a_kill_leaves_what_came_and_the_next_call_resumes(
    publisher: Publisher, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    noise = {"ml-latest/noise.bin": rng.bytes(1_000_000).hex()}
    publisher.files["ml-latest.zip"] = archive({**LATEST, **noise})
    publisher.seconds_a_block = 0.05
    for _ in range(3):
        before = len(publisher.asked)
        process = whence_get(publisher, "ml-latest", tmp_path)
        while len(publisher.asked) == before:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        time.sleep(0.25)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"ml-latest.zip.part", "ml-latest.zip.part.json"}
    publisher.seconds_a_block = 0
    process = whence_get(publisher, "ml-latest", tmp_path)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    starts = [int(asked.removeprefix("bytes=")[:-1]) for asked in publisher.asked if asked]
    assert len(starts) == 3
    assert starts == sorted(set(starts)), "each call went on where the one before was killed"


@pytest.mark.kill
def test_ctrl_c_leaves_what_came(publisher: Publisher, tmp_path: Path) -> None:
    publisher.files["ml-latest.zip"] = CONTENT
    publisher.seconds_a_block = 0.05
    process = whence_get(publisher, "ml-latest", tmp_path)
    while not publisher.asked:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(0.25)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert (tmp_path / "ml-latest.zip.part").stat().st_size > 0
