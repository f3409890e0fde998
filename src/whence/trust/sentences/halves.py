"""Agreement of sentences: do two halves of the seeds name the same items?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from whence.arrays import Bools, Ints
from whence.data.histories import Cases
from whence.errors import InputError
from whence.reasons.of_run import make_reasoner
from whence.run import Run
from whence.trust.sentences.said import Histories, Said, recommend_lists, say


@dataclass(frozen=True, eq=False)
class Halves:
    """What two halves of the seeds say of the same recommendations."""

    first: Said
    second: Said
    seeds: tuple[tuple[int, ...], tuple[int, ...]]
    """Those of each half."""

    def same_named(self) -> tuple[Bools, Ints]:
        """Return whether both name the same items, and the users, if either half names any."""
        return self._where_either_names(self.first.named == self.second.named)

    def same_supposed(self) -> tuple[Bools, Ints]:
        """Return the same of what is most probable of all that can be said, sure enough or not."""
        return self._where_either_names(self.first.supposed == self.second.supposed)

    def _where_either_names(self, same: Tensor) -> tuple[Bools, Ints]:
        either = self.first.names | self.second.names
        return same.all(dim=1)[either].cpu().numpy(), self.first.user[either].cpu().numpy()


def halves_of(run: Run) -> tuple[Run, Run]:
    """Return the run with either half of its seeds."""
    seeds = tuple(run.models)
    if len(seeds) < 2:
        raise InputError(f"Two halves need at least 2 seeds, not {len(seeds)}.")
    middle = len(seeds) // 2
    return _part(run, seeds[:middle]), _part(run, seeds[middle:])


def compare_halves(
    run: Run, cases: Cases, histories: Histories, removal: str, list_size: int
) -> Halves:
    """Ask two disjoint halves of the run's seeds about the first half's recommendations."""
    first, second = halves_of(run)
    lists = recommend_lists(first.whole, cases, len(run.catalog), list_size)
    one, other = (
        say(make_reasoner(run, half.recommenders(), removal), histories, lists)
        for half in (first, second)
    )
    return Halves(one, other, (tuple(first.models), tuple(second.models)))


def _part(run: Run, seeds: tuple[int, ...]) -> Run:
    """Return the run with some of its seeds."""
    return replace(run, models={seed: run.models[seed] for seed in seeds})
