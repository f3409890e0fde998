"""The worlds of the study of true reasons: those to learn from, and those that are reported."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from whence.errors import InputError
from whence.reasons.judgement import SURE
from whence.reasons.scoring import CLEAR
from whence.reasons.teaching import WorldLessons
from whence.worlds.designs import GENERATORS, Generator
from whence.worlds.drawing import draw_config, draw_wide_config


@dataclass(frozen=True)
class ReasonsPlan:
    """Which worlds are learned from and which are reported."""

    learned: int = 12
    """Worlds of each generator to learn from: draws 1, 2, …"""
    reported: int = 10
    """Worlds of each generator that are reported: draws 201, 202, …"""
    wide: int = 8
    """Wide worlds of each generator that the default calibrator learns from, too."""
    users: int = 1_000
    """Users of each world, with ten recommendations each."""
    fewer_users: int = 300
    """The same of worlds that are wide, or whose items have no attributes."""
    seeds: int = 5
    steps: int = 3_000
    """Of the calibrators."""

    def __post_init__(self) -> None:
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        if min(given.values()) < 1 or self.seeds < 2:
            raise InputError(f"Set {', '.join(given)} to at least 1, and seeds to 2.")

    def worlds(self, generator: Generator, numbers: range, device: str) -> list[WorldLessons]:
        """Return drawn worlds."""
        return [
            WorldLessons(draw_config(generator, one), self.seeds, self.users, device)
            for one in numbers
        ]

    def learning(self, generator: Generator, device: str) -> list[WorldLessons]:
        """Return the worlds to learn from."""
        return self.worlds(generator, range(1, 1 + self.learned), device)

    def learning_default(self, device: str) -> list[WorldLessons]:
        """Return what the default calibrator learns from: every kind of data that it may meet."""
        usual = [one for each in GENERATORS for one in self.learning(each, device)]
        unknown = [replace(one, users=self.fewer_users, attributes=False) for one in usual]
        numbers = range(1, 1 + self.wide)
        wide = [
            one
            for attributes in (True, False)
            for each in GENERATORS
            for one in self.wide_worlds(each, numbers, device, attributes)
        ]
        return [*usual, *unknown, *wide]

    def wide_worlds(
        self, generator: Generator, numbers: range, device: str, attributes: bool
    ) -> list[WorldLessons]:
        """Return drawn wide worlds."""
        return [
            WorldLessons(
                draw_wide_config(generator, one),
                self.seeds,
                self.fewer_users,
                device,
                attributes=attributes,
            )
            for one in numbers
        ]

    def reporting(self, generator: Generator, device: str) -> list[WorldLessons]:
        """Return the reported worlds."""
        return self.worlds(generator, self.reported_draws, device)

    def reporting_wide(
        self, generator: Generator, device: str, attributes: bool
    ) -> list[WorldLessons]:
        """Return the reported wide worlds."""
        return self.wide_worlds(generator, self.reported_draws, device, attributes)

    @property
    def reported_draws(self) -> range:
        """The draws of reported worlds."""
        return range(201, 201 + self.reported)

    def words_of(self, users: int, default: bool) -> str:
        """Return the protocol of figures with this number of users of a world."""
        more = f", with and without attributes, and on {self.wide} wide ones, likewise"
        return (
            f"said at {100 * SURE:.0f} %, unless a row says otherwise; {users} users × 10 "
            "recommendations of SASRec in each world; calibrators learned on "
            f"{self.learned} other worlds of each generator{more if default else ''}; cases whose "
            f"truth is less probable than {CLEAR:g} count only in the true probability and in the "
            "calibration"
        )
