"""Three generators of worlds that differ in kind: films, a shop and music.

- **films**: sequels follow their first part, spin-offs any of several films, and crossovers two
  films together. Users who know an original avoid its remakes. Nobody watches a film twice.
- **shop**: articles cause several complements, mostly of other departments, which complete several
  articles. Kits follow two articles together. Users avoid substitutes for a while, and buy again
  what is used up.
- **music**: a track causes the next of its album for a short time, and repeats. A reprise follows
  any of several tracks, and a medley two together. A session has a mood, which is the style of most
  of its tracks. Users avoid other versions of a track.

What can be caused also happens without its cause, by its own fame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from whence.arrays import Floats, Ints, Ints32
from whence.errors import InputError
from whence.worlds.films import FAME_DECAY, quantiles
from whence.worlds.mechanism import Mechanism, Pairs, Rivals, Ties
from whence.worlds.world_config import NONE, check_given

Generator = Literal["films", "shop", "music"]
GENERATORS: Final[tuple[Generator, ...]] = get_args(Generator)

EPOCHS: Final = 12
"""How many times of different fame there are."""
SHARED: Final = 8
"""The part of an item that each of several others causes."""
JOINT: Final = 9
"""The part of an item that two others cause together."""
RIVAL: Final = 20
"""The part of the first rival; the others follow."""
FAMOUS: Final = 0.2
"""Partners and heads of families are among this share of the most famous items."""
PAIR_MEMORY: Final = 40
"""For how many events two items cause a third one together, all the same."""
RIVAL_MEMORY: Final = 20
"""For how many events users avoid a substitute or another version."""
MOST_GROUPS: Final = 120
"""With more groups than names for them, several groups share a name: tastes are finer than what is
known of the items."""
COMPLEMENTS: Final = 3
CAUSES_OF_SHARED: Final = 3
"""How many items cause a shared one, in films and music."""
SUBSTITUTES: Final = 4
VERSIONS: Final = 3
REMAKES: Final = 6


@dataclass(frozen=True)
class CausalConfig:
    """The size of a world, and how strong its sources are."""

    generator: Generator = "films"
    users: int = 3_000
    items: int = 600
    events: int = 40
    """Average number of events of a user."""
    groups: int = 8
    tied: float = 0.3
    """Share of items that cause others."""
    paired: float = 0.03
    """Share of items that have a partner."""
    rivals: float = 0.1
    """Share of items that users avoid because of another one."""
    tie_rate: float = 0.3
    """The rate of a new tie; those of taste, popularity and noise sum to 1."""
    pair_rate: float = 0.2
    half_life: float = 6.0
    """The number of events after which a tie has half of its rate."""
    memory: int = 40
    """The number of events after which it has none: as many as the networks of worlds read, so that
    no cause ends at a moment that nobody can see."""
    taste: float = 0.6
    noise: float = 0.05
    """The rate of popularity is what remains to 1."""
    spontaneous: float = 0.4
    """The fame of items that others cause, relative to the fame of usual items."""
    shared: float = 0.3
    """How many effects have several possible causes, as a share of the items that cause others."""
    across: float = 0.2
    """The probability that an item is of another group than the items that cause it."""
    acceptance: float = 0.05
    """The probability with which users accept a rival of what they have."""
    drift: float = 0.5
    """How much fame changes with time."""
    concentration: float = 0.3
    """The parameter of the Dirichlet distribution of tastes; small for few liked groups."""
    mood: float = 0.0
    """The weight of the mood in taste."""
    stay: float = 0.9
    """The probability that the mood stays."""
    seed: int = 0
    lengths: tuple[int, ...] = ()
    """Number of events of each user, instead of `events`."""
    popularity: tuple[int, ...] = ()
    """Wanted number of events of each item, in any order."""

    def __post_init__(self) -> None:
        if self.generator not in GENERATORS:
            raise InputError(f"generator is one of {', '.join(GENERATORS)}, not {self.generator}.")
        if self.users < 1 or self.events < 3 or self.memory < 1 or self.seed < 0:
            raise InputError("A world needs users >= 1, events >= 3, memory >= 1 and seed >= 0.")
        if not 1 <= self.groups <= MOST_GROUPS or self.items < 10 * self.groups:
            raise InputError(f"A world needs 1 to {MOST_GROUPS} groups, and 10 items per group.")
        shares = (
            "tied",
            "paired",
            "rivals",
            "taste",
            "noise",
            "acceptance",
            "across",
            "shared",
            "mood",
            "stay",
        )
        for name in shares:
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is a number from 0 to 1, not {getattr(self, name)}.")
        if self.taste + self.noise > 1 or self.tied + self.paired + self.rivals > 0.6:
            raise InputError(
                "taste + noise must be at most 1, and tied + paired + rivals at most 0.6."
            )
        if min(self.tie_rate, self.pair_rate, self.spontaneous, self.drift) < 0:
            raise InputError("Rates, spontaneous and drift must be at least 0.")
        if min(self.half_life, self.concentration) <= 0:
            raise InputError("half_life and concentration must be above 0.")
        check_given(self)


@dataclass(frozen=True, eq=False)
class Design:
    """A mechanism, and what its items are to each other, for their names."""

    mechanism: Mechanism
    stem: Ints32
    """`[items]`: the item whose name it takes."""
    part: Ints32
    """`[items]`: 0 for an item with a name of its own, from 1 for what belongs to it."""


def design(config: CausalConfig, rng: np.random.Generator) -> Design:
    """Draw the mechanism of a world."""
    return _DESIGNS[config.generator](config, rng)


@dataclass(eq=False)
class _Draft:
    """Items that get their roles one after the other; those without a role are plain."""

    config: CausalConfig
    rng: np.random.Generator

    def __post_init__(self) -> None:
        count = self.config.items
        self.group = self.rng.integers(0, self.config.groups, count, dtype=np.int32)
        self.group[: self.config.groups] = np.arange(self.config.groups)  # no group is empty
        self.base = _ranked_fame(self.config, self.rng)
        self.stem = np.arange(count, dtype=np.int32)
        self.part = np.zeros(count, dtype=np.int32)
        self.partner, self.joint, self.family = (
            np.full(count, NONE, dtype=np.int32) for _ in range(3)
        )
        self.rules = np.zeros(count, dtype=np.bool_)
        # The first items of each group stay plain, so that taste always finds one.
        self._free = self.config.groups + self.rng.permutation(count - self.config.groups)

    def take(self, count: int) -> Ints:
        """Return so many items that have no role yet."""
        taken, self._free = self._free[:count], self._free[count:]
        return taken

    def take_famous(self, count: int) -> Ints:
        """Return so many of the most famous items without a role, at random."""
        famous = self._free[np.argsort(-self.base[self._free], kind="stable")]
        famous = famous[: max(count, int(FAMOUS * len(famous)))]
        taken = self.rng.permutation(famous)[:count]
        self._free = self._free[~np.isin(self._free, taken)]
        return taken

    def belongs(self, items: Ints, to: Ints, part: int) -> None:
        """Let items take the name of others and, but for some, their group."""
        self.stem[items], self.part[items] = self.stem[to], part
        moves = self.rng.random(len(items)) < self.config.across
        self.group[items] = np.where(moves, self.group[items], self.group[to])

    def pair_up(self, same_group: bool) -> None:
        """Draw partners and the items that they cause together."""
        pairs = int(self.config.items * self.config.paired) // 2
        items = self.take_famous(2 * pairs)
        if same_group:  # neighbours in this order are of the same group, as far as they go round
            items = items[np.argsort(self.group[items], kind="stable")]
        first, second = items[0::2], items[1::2]
        self.partner[first], self.partner[second] = second, first
        self.base[items] = self.base.max()  # so that users often have both
        result = self.take(len(first))
        self.joint[first] = self.joint[second] = result
        self.belongs(result, first, JOINT)
        self.base[result] *= self.config.spontaneous

    def shared_effects(self, causes: Ints, result: Ints32) -> None:
        """Let several items each cause the same one: the second effect of these causes."""
        count = min(int(len(causes) * self.config.shared / 2), len(causes) // CAUSES_OF_SHARED)
        effects = self.take(count)
        of_effect = self.rng.permutation(causes)[: CAUSES_OF_SHARED * len(effects)]
        result[of_effect, 1] = np.repeat(effects, CAUSES_OF_SHARED)
        self.belongs(effects, of_effect[::CAUSES_OF_SHARED], SHARED)
        self.base[effects] *= self.config.spontaneous

    def rival_families(self, size: int, all_rule: bool) -> None:
        """Draw families of rivals: the first item rules, or all of them do."""
        families = int(self.config.items * self.config.rivals) // size
        heads = self.take_famous(families)
        for number, head in enumerate(heads.tolist()):
            others = self.take(size)
            self.family[head] = self.family[others] = number
            self.rules[head] = True
            self.rules[others] = all_rule
            self.belongs(others, np.array([head]), RIVAL)
            self.part[others] += np.arange(len(others), dtype=np.int32)

    def finish(self, *ties: Ties, repeats: bool, rival_memory: int) -> Design:
        """Return the design with these ties."""
        config = self.config
        mechanism = Mechanism(
            group=self.group,
            fame=_drifting(self.base, config, self.rng),
            ties=ties,
            pairs=Pairs(self.partner, self.joint, config.pair_rate, np.ones(PAIR_MEMORY)),
            rivals=Rivals(self.family, self.rules, config.acceptance, rival_memory),
            repeats=repeats,
            taste=config.taste,
            popularity=max(0.0, 1.0 - config.taste - config.noise),
            noise=config.noise,
        )
        return Design(mechanism, self.stem, self.part)


def _films(config: CausalConfig, rng: np.random.Generator) -> Design:
    draft = _Draft(config, rng)
    draft.rival_families(REMAKES, all_rule=False)
    draft.pair_up(same_group=True)
    firsts = draft.take_famous(int(config.items * config.tied * 0.6))
    seconds, thirds = draft.take(len(firsts)), draft.take(len(firsts) // 2)
    draft.belongs(seconds, firsts, 1)
    draft.belongs(thirds, firsts[: len(thirds)], 2)
    draft.base[np.concatenate((seconds, thirds))] *= config.spontaneous
    result = np.full((config.items, 2), NONE, dtype=np.int32)
    result[firsts, 0] = seconds
    result[seconds[: len(thirds)], 0] = thirds
    draft.shared_effects(firsts, result)
    ties = Ties(result, _varied(1.5 * config.tie_rate, result, rng), _fading(config))
    return draft.finish(ties, repeats=False, rival_memory=10**6)


def _shop(config: CausalConfig, rng: np.random.Generator) -> Design:
    draft = _Draft(config, rng)
    draft.rival_families(SUBSTITUTES, all_rule=True)
    draft.pair_up(same_group=False)
    heads = draft.take_famous(int(config.items * config.tied))
    # Complements may complete several articles; the group of one of them is theirs, if any is.
    pool = draft.take(max(1, int(len(heads) * (1 - config.shared))))
    draft.base[pool] *= config.spontaneous
    result = np.full((config.items, COMPLEMENTS), NONE, dtype=np.int32)
    for column in range(COMPLEMENTS):
        has = heads if column == 0 else heads[rng.random(len(heads)) < 0.5]
        result[has, column] = rng.choice(pool, len(has))
        keeps = has[rng.random(len(has)) >= config.across]
        draft.group[result[keeps, column]] = draft.group[keeps]
    result = _without_repetition(result)
    complements = Ties(result, _varied(config.tie_rate, result, rng) / 1.5, _fading(config))
    again = np.full((config.items, 1), NONE, dtype=np.int32)
    used_up = draft.take(config.items // 10)
    again[used_up, 0] = used_up
    period = max(2.0, 2 * config.half_life)
    due = np.exp(-0.5 * ((np.arange(config.memory) - period) / (period / 4)) ** 2)
    replenishment = Ties(again, _varied(config.tie_rate, again, rng), due)
    return draft.finish(complements, replenishment, repeats=True, rival_memory=RIVAL_MEMORY)


def _music(config: CausalConfig, rng: np.random.Generator) -> Design:
    draft = _Draft(config, rng)
    draft.rival_families(VERSIONS, all_rule=True)
    draft.pair_up(same_group=True)
    singles = draft.take(int(config.items * config.tied * 0.5))
    result = np.full((config.items, 2), NONE, dtype=np.int32)
    before = singles
    for number in (1, 2):
        following = draft.take(len(singles))
        draft.belongs(following, singles[: len(following)], number)
        draft.base[following] *= config.spontaneous
        result[before[: len(following)], 0] = following
        before = following
    draft.shared_effects(singles, result)
    short = 0.5 ** (np.arange(config.memory) / max(1.0, config.half_life / 3))
    following_tie = Ties(result, _varied(1.5 * config.tie_rate, result, rng), short)
    again = np.arange(config.items, dtype=np.int32)[:, None].copy()
    fresh = np.where(np.arange(config.memory) < 2, 0.0, _fading(config))
    repeats = Ties(again, _varied(0.1 * config.tie_rate, again, rng), fresh)
    return draft.finish(following_tie, repeats, repeats=True, rival_memory=RIVAL_MEMORY)


_DESIGNS: Final[Mapping[str, Callable[[CausalConfig, np.random.Generator], Design]]] = {
    "films": _films,
    "shop": _shop,
    "music": _music,
}


def _ranked_fame(config: CausalConfig, rng: np.random.Generator) -> Floats:
    """Return the fame of each item before drift, in random order."""
    if config.popularity:
        given: Floats = rng.permutation(quantiles(config.popularity, config.items)).astype(float)
        return given
    rank = 1.0 + rng.permutation(config.items).astype(np.float64)
    return rank**-FAME_DECAY


def _drifting(base: Floats, config: CausalConfig, rng: np.random.Generator) -> Floats:
    """Return `[epochs, items]`: every item has its season."""
    phase = rng.random(len(base))
    angle = 2 * np.pi * (np.arange(EPOCHS)[:, None] / EPOCHS + phase)
    fame: Floats = base * np.exp(config.drift * np.sin(angle))
    return fame


def _fading(config: CausalConfig) -> Floats:
    """Return `[memory]`: the factor of a rate by age."""
    factor: Floats = 0.5 ** (np.arange(config.memory) / config.half_life)
    return factor


def _varied(rate: float, result: Ints32, rng: np.random.Generator) -> Floats:
    """Return rates from half to one and a half times the given one; 0 where there is no result."""
    varied = np.asarray(rate * rng.uniform(0.5, 1.5, result.shape))
    varied[result == NONE] = 0.0
    return varied


def _without_repetition(result: Ints32) -> Ints32:
    """Remove a result that the same item has in an earlier column."""
    for column in range(1, result.shape[1]):
        again = (result[:, :column] == result[:, column, None]).any(axis=1)
        result[again, column] = NONE
    return result
