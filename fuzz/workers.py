"""Cases in worker processes, so that a crash or a hang of one is a failure and not the end."""

from __future__ import annotations

import faulthandler
import multiprocessing
import resource
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final

import pyarrow as pa

from whence.errors import LONGEST_MESSAGE, WhenceError
from whence.text import visible

SECONDS: Final = 5.0
"""How long a case may take."""
WORKERS: Final = 2
PRELOADED: Final = ["whence.recommendation", "whence_studies.study"]
"""Imported once, and not by each worker: they take seconds."""
GROWTH: Final = 1 << 30
"""Bytes that one case may add to the largest memory of its worker."""
ADDRESS_SPACE: Final = 4 << 30
"""Bytes of addresses that a worker may add to those it has when it starts."""
Attempt = Callable[[int], str]
"""Tries the case with this number, and returns the kind of its outcome."""
MakeAttempt = Callable[[int, Path], Attempt]


class TooSlow(Exception):  # noqa: N818 - raised by the alarm
    """A case took too long."""


def run_cases(
    make: MakeAttempt, cases: range, seed: int, folder: Path
) -> tuple[list[str], Mapping[str, int]]:
    """Return the failures of all cases, and how often each kind of outcome was seen."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    workers = []
    for place in range(min(WORKERS, len(cases))):
        mine = folder / f"worker-{place}"
        mine.mkdir(parents=True, exist_ok=True)
        workers.append(_Worker(context, make, list(cases[place::WORKERS]), seed, mine))
    failures: list[str] = []
    outcomes: Counter[str] = Counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.finish(failures, outcomes)
    return sorted(failures, key=_number), dict(sorted(outcomes.items()))


def _number(failure: str) -> int:
    return int(failure.split(":")[0].removeprefix("case "))


class _Worker:
    """One process, started again after the case that ended it."""

    def __init__(
        self,
        context: ForkServerContext,
        make: MakeAttempt,
        cases: list[int],
        seed: int,
        folder: Path,
    ) -> None:
        self.context, self.make, self.cases, self.seed = context, make, cases, seed
        self.folder = folder

    def start(self) -> None:
        """Start the process for the cases that are left."""
        self.ours, theirs = self.context.Pipe(duplex=False)
        arguments = (self.make, self.cases, self.seed, self.folder, theirs)
        self.process = self.context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.ours.recv()
        except EOFError:
            raise RuntimeError("a worker cannot start; see its error above") from None

    def finish(self, failures: list[str], outcomes: Counter[str]) -> None:
        """Collect what the process reports, until all its cases are done."""
        done = 0
        while done < len(self.cases):
            try:
                kind, text = self.ours.recv()
            except EOFError:
                self.process.join()
                code = self.process.exitcode
                failures.append(f"case {self.cases[done]}: the process ended with {code}")
                self.cases, done = self.cases[done + 1 :], 0
                if self.cases:
                    self.start()
                continue
            done += 1
            outcomes[kind] += 1
            if text:
                failures.append(text)
        self.process.join()


def _work(make: MakeAttempt, cases: list[int], seed: int, folder: Path, out: Connection) -> None:
    """Run in the worker: try each case and send its outcome."""
    # An exception cannot interrupt C code, so a hang there ends the process.
    log = (folder / "hang.txt").open("w")
    pa.set_cpu_count(1)
    signal.signal(signal.SIGALRM, _alarm)
    attempt = make(seed, folder)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    out.send("ready")
    for number in cases:
        faulthandler.dump_traceback_later(4 * SECONDS, exit=True, file=log)
        before = _memory()
        try:
            with _limited():
                kind, problem = attempt(number), ""
        except Exception:
            kind, problem = "failure", _last_lines(traceback.format_exc())
        if _memory() - before > GROWTH:
            problem = problem or f"memory grew by {(_memory() - before) >> 20} MB"
        faulthandler.cancel_dump_traceback_later()
        out.send((kind, f"case {number}: {problem}" if problem else ""))
    out.close()


def _alarm(*_: object) -> None:
    raise TooSlow(f"took more than {SECONDS:g} s")


@contextmanager
def _limited() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _last_lines(text: str, count: int = 5) -> str:
    return " | ".join(line.strip()[:200] for line in text.strip().splitlines()[-count:])


def outcome_of(read: Callable[[], object]) -> str:
    """Return "read" or "refused"; raise if it fails in another way or its messages are unsafe."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            read()
            kind = "read"
        except WhenceError as problem:
            check_message(str(problem))
            kind = "refused"
    for one in noted:
        check_message(str(one.message))
    return kind


def check_message(said: str) -> None:
    """Raise if a message is too long or holds a character that acts."""
    if len(said) > LONGEST_MESSAGE:
        raise AssertionError(f"a message of {len(said)} characters: {said[:100]!r}")
    if visible(said) != said:
        raise AssertionError(f"a message with control characters: {said[:300]!r}")
