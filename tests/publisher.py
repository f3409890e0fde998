"""A web server on this machine that can misbehave, and remembers what it was asked."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

from whence.data.download import download

CONTENT = np.random.default_rng(0).bytes(3_000_000)
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
NO_PAUSES = (0.0, 0.0)


class Publisher:
    """The server and its faults."""

    def __init__(self) -> None:
        self.files = {"file.bin": CONTENT}
        self.validators = {"ETag": '"first"'}
        self.redirects: dict[str, str] = {}
        self.ranges_known = True
        self.ranges_wrong = False
        self.if_range_known = True
        self.stated_length: int | str | None = None
        """Stated instead of the real length; an empty text states none."""
        self.cut_after: list[int] = []
        """How many bytes of each coming answer are sent before the line goes dead."""
        self.failures: list[int] = []
        """Status codes of the coming answers."""
        self.seconds_a_block = 0.0
        self.asked: list[str | None] = []
        """The range of each request."""
        self.conditions: list[str | None] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        serve = partial(self.server.serve_forever, poll_interval=0.01)
        threading.Thread(target=serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def publishing() -> Iterator[Publisher]:
    made = Publisher()
    yield made
    made.server.shutdown()
    made.server.server_close()


def get(
    publisher: Publisher,
    path: Path,
    checksum: str | None = SHA256,
    pauses: Sequence[float] = NO_PAUSES,
    max_bytes: int = len(CONTENT),
) -> bytes:
    url = f"{publisher.url}/file.bin"
    return download(url, path, max_bytes, checksum, pauses, show_progress=False).read_bytes()


def _handler(publisher: Publisher) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted, condition = self.headers["Range"], self.headers["If-Range"]
            publisher.asked.append(wanted)
            publisher.conditions.append(condition)
            name = self.path.lstrip("/")
            if publisher.failures:
                self.send_error(publisher.failures.pop(0))
            elif name in publisher.redirects:
                self.send_response(302)
                self.send_header("Location", publisher.redirects[name])
                self.end_headers()
            elif name not in publisher.files:
                self.send_error(404)
            else:
                changed = publisher.if_range_known and condition not in (
                    None,
                    *publisher.validators.values(),
                )
                use_range = wanted and publisher.ranges_known and not changed
                self._answer(publisher.files[name], wanted if use_range else None)

        def _answer(self, content: bytes, wanted: str | None) -> None:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted else 0  # type: ignore[index]
            if start and start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                begin = 0 if publisher.ranges_wrong else start
                end = len(content) - 1
                self.send_header("Content-Range", f"bytes {begin}-{end}/{len(content)}")
            for name, value in publisher.validators.items():
                self.send_header(name, value)
            stated = publisher.stated_length
            if stated != "":
                length = len(content) - start if stated is None else stated
                self.send_header("Content-Length", str(length))
            self.end_headers()
            self._send(content[start:])

        def _send(self, content: bytes) -> None:
            if publisher.cut_after:
                content = content[: publisher.cut_after.pop(0)]
            try:
                for place in range(0, len(content), 1 << 16):
                    self.wfile.write(content[place : place + (1 << 16)])
                    time.sleep(publisher.seconds_a_block)
            except OSError:
                pass  # the other side has heard enough
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler
