"""Worlds: synthetic interactions whose true reasons are known.

In a world of films, a user watches:

- a **sequel** because of one earlier film, the one it continues (*caused*);
- never a **remake** after its original: that earlier film *prevents* it;
- films of genres the user likes (*taste*);
- films everybody watches (*popular*);
- sometimes a random film (*noise*).

For every event the world knows which of these it is, and which earlier event caused it or prevented
another film. So an explanation can be checked, which real data do not allow.
"""

from whence.worlds.causal import CausalWorld, Source, make_causal_world
from whence.worlds.designs import CausalConfig
from whence.worlds.drawing import draw_config, draw_wide_config
from whence.worlds.world import REASONS, World, WorldQuestions, make_world
from whence.worlds.world_config import NONE, EventKind, WorldConfig
from whence.worlds.world_like import StatisticPair, compare_statistics, draw_config_like, world_like

__all__ = [
    "NONE",
    "REASONS",
    "CausalConfig",
    "CausalWorld",
    "EventKind",
    "Source",
    "StatisticPair",
    "World",
    "WorldConfig",
    "WorldQuestions",
    "compare_statistics",
    "draw_config",
    "draw_config_like",
    "draw_wide_config",
    "make_causal_world",
    "make_world",
    "world_like",
]
