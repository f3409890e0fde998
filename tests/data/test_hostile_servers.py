"""Servers that send too much, too slowly, or somebody elsewhere; links where files should be."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.client import HTTPMessage
from io import BytesIO
from pathlib import Path
from urllib.request import Request

import pytest

from publisher import CONTENT, Publisher, get, publishing
from whence.data import web
from whence.data.download import download
from whence.errors import InputError

SMALL = 1_000_000


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with publishing() as made:
        yield made


@pytest.mark.parametrize("stated", [None, "", 10**12, "9" * 5_000, "-1", "many"])
def test_a_file_that_is_too_large_is_not_kept(
    publisher: Publisher, tmp_path: Path, stated: int | str | None
) -> None:
    """Whether the server states its length, none, or a wrong one."""
    publisher.stated_length = stated
    with pytest.raises(InputError, match=r"it has [\d,]+ bytes or more, but 1,000,000 at most"):
        get(publisher, tmp_path / "file.bin", max_bytes=SMALL)
    assert list(tmp_path.iterdir()) == []
    assert len(publisher.asked) == 1, "a retry would not help"


def test_a_stated_length_that_is_too_short_ends_the_file(
    publisher: Publisher, tmp_path: Path
) -> None:
    publisher.stated_length = 500
    with pytest.raises(InputError, match="its sha256 is"):
        get(publisher, tmp_path / "file.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_part_may_not_grow_beyond_the_limit(publisher: Publisher, tmp_path: Path) -> None:
    """The rest comes as a range of a larger file."""
    publisher.cut_after = [600_000]
    with pytest.raises(InputError, match="ended after 600,000"):
        get(publisher, tmp_path / "file.bin", pauses=())
    with pytest.raises(InputError, match="it has 3,000,000 bytes or more"):
        get(publisher, tmp_path / "file.bin", max_bytes=SMALL)
    assert publisher.asked[-1] == "bytes=600000-"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_noticed_before(publisher: Publisher, tmp_path: Path) -> None:
    publisher.stated_length = 10**17
    with pytest.raises(InputError, match="has room for .* bytes, but 100,000,000,000,000,000 are"):
        get(publisher, tmp_path / "file.bin", max_bytes=10**18)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "jar:x", "http://[", "//"]
)
def test_a_redirect_leads_to_the_web_or_nowhere(
    publisher: Publisher, tmp_path: Path, target: str
) -> None:
    publisher.redirects["file.bin"] = target
    with pytest.raises(InputError):
        get(publisher, tmp_path / "file.bin", pauses=())
    assert list(tmp_path.iterdir()) == []


def test_redirects_are_followed_but_not_forever(publisher: Publisher, tmp_path: Path) -> None:
    for number in range(9):
        publisher.redirects[f"{number}"] = f"{publisher.url}/{number + 1}"
    publisher.files["9"] = CONTENT
    publisher.redirects["file.bin"] = "/6"
    assert get(publisher, tmp_path / "file.bin") == CONTENT
    publisher.redirects["file.bin"] = "/0"
    with pytest.raises(InputError, match="redirects too often"):
        get(publisher, tmp_path / "other.bin")


def test_https_does_not_become_http() -> None:
    request = Request("https://example.org/file")
    redirect = partial(
        web._RedirectHandler().redirect_request, request, BytesIO(), 302, "Found", HTTPMessage()
    )
    with pytest.raises(web.RefusedError):
        redirect("http://example.org/file")
    assert redirect("https://example.org/other") is not None


def serve(answers: list[bytes], rest: bytes, pause: float) -> tuple[str, threading.Event]:
    """Give each connection the next answer, and the last one more bytes from time to time."""
    server = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def talk() -> None:
        with server:
            for number, answer in enumerate(answers, start=1):
                line, _ = server.accept()
                with line, suppress(OSError):
                    line.recv(10_000)
                    line.sendall(answer)
                    while number == len(answers) and not stop.wait(pause):
                        line.sendall(rest)

    threading.Thread(target=talk, daemon=True).start()
    return f"http://127.0.0.1:{server.getsockname()[1]}/file.bin", stop


LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "rest"),
    [(LONG, b"x"), (CHUNKED, b"0"), (b"HTTP/1.1 200 OK\r\nX: ", b"x"), (b"", b"H")],
    ids=["body", "chunk", "header", "status"],
)
def test_a_trickle_is_given_up(
    answer: bytes, rest: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "WINDOW_SECONDS", 0.3)
    url, stop = serve([answer], rest, 0.02)
    started = time.monotonic()
    try:
        with pytest.raises(InputError, match=r"only [\d,]+ bytes in \d seconds"):
            download(url, tmp_path / "file.bin", SMALL, None, (), show_progress=False)
    finally:
        stop.set()
    assert time.monotonic() - started < 60


def test_the_limit_holds_over_retries(tmp_path: Path) -> None:
    """A file of 900,000 bytes by its headers, whose second part does not end."""
    etag = b'ETag: "first"\r\n'
    first = LONG.replace(b"\r\n\r\n", b"\r\n" + etag + b"\r\n") + bytes(600_000)
    place = b"Content-Range: bytes 600000-899999/900000\r\n"
    second = b"HTTP/1.1 206 Partial Content\r\n" + place + etag + b"\r\n"
    url, stop = serve([first, second], bytes(1 << 16), 0.001)
    try:
        with pytest.raises(InputError, match=r"it has 1,0\d\d,\d+ bytes or more"):
            download(url, tmp_path / "file.bin", SMALL, None, (0.0,), show_progress=False)
    finally:
        stop.set()
    assert list(tmp_path.iterdir()) == []


def test_silence_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "TIMEOUT_SECONDS", 0.2)
    url, stop = serve([LONG], b"", 60)
    try:
        with pytest.raises(InputError, match="timed out"):
            download(url, tmp_path / "file.bin", SMALL, None, (), show_progress=False)
    finally:
        stop.set()


def test_the_body_of_a_redirect_is_not_read(tmp_path: Path) -> None:
    """Or it could be endless."""
    head = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"
    url, stop = serve([head], bytes(1 << 16), 0.001)
    try:
        with pytest.raises(InputError, match="refused"):
            download(url, tmp_path / "file.bin", SMALL, None, (), show_progress=False)
    finally:
        stop.set()


@pytest.mark.parametrize("name", ["file.bin.part", "file.bin.part.json"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_links_and_pipes_are_not_written_through(
    publisher: Publisher, tmp_path: Path, name: str, kind: str
) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("keep this")
    folder = tmp_path / "data"
    folder.mkdir()
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(mine if kind == "link" else tmp_path / "absent")
    if name.endswith(".part"):
        with pytest.raises(InputError, match="is a link or a pipe instead of a file. Remove it"):
            get(publisher, folder / "file.bin")
    else:
        (folder / "file.bin.part").write_bytes(b"something")
        assert get(publisher, folder / "file.bin") == CONTENT
    assert mine.read_text() == "keep this"
    assert not (tmp_path / "absent").exists()


def test_a_link_or_pipe_in_place_of_the_file_is_replaced(
    publisher: Publisher, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("keep this")
    (tmp_path / "link.bin").symlink_to(mine)
    os.mkfifo(tmp_path / "pipe.bin")
    for name in ("link.bin", "pipe.bin"):
        assert get(publisher, tmp_path / name) == CONTENT
        assert not (tmp_path / name).is_symlink()
    assert mine.read_text() == "keep this"


def test_a_file_that_another_process_finished_is_not_emptied(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process renames the part between our opening and our locking it."""
    import fcntl

    from whence.data.partial_file import open_partial

    part, done = tmp_path / "file.bin.part", tmp_path / "file.bin"
    part.write_bytes(CONTENT)
    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda *a: (part.replace(done), real(*a))[1])
    with pytest.raises(InputError, match="by another process"), open_partial(part):
        pass
    assert done.read_bytes() == CONTENT
