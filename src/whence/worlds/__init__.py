"""Worlds: made-up interactions whose true reasons are known.

In a world of films a user watches

- a **sequel** because of one particular earlier film, the one it continues (*caused*);
- never a **remake** after its original: that one earlier film *prevents* it;
- films of genres the user likes (*taste*);
- films everybody watches (*popular*);
- now and then anything at all (*noise*).

For every event the world says which, and which earlier position caused it, or prevented the film
that would otherwise have come. Against that an explainer's answer is right or wrong, which no real
data can say.
"""

from whence.worlds.config import NONE, Kind, WorldConfig
from whence.worlds.likeness import Alike, how_alike, world_like
from whence.worlds.world import REASONS, Questions, World, make_world

__all__ = [
    "NONE",
    "REASONS",
    "Alike",
    "Kind",
    "Questions",
    "World",
    "WorldConfig",
    "how_alike",
    "make_world",
    "world_like",
]
