"""Maps of what a model has learned: where it places items and users, and which are near.

`map_items` and `map_users` place them in two dimensions, by `pca` or `tsne`. `nearest` finds
neighbours in all dimensions. `same_group` measures how often neighbours share something that the
model was not given, such as a genre or an age. `reason_map` shows how one history is read for
several targets, and `reason_sentences` puts it into words.
"""

from whence.maps.groups import Groups, SameGroup, ages_of, genres_of, same_group
from whence.maps.learned_map import LearnedMap, map_items, map_users
from whence.maps.nearest import Nearest, nearest
from whence.maps.projection import Projection, pca, tsne
from whence.maps.reason_map import reason_map, reason_sentences

__all__ = [
    "Groups",
    "LearnedMap",
    "Nearest",
    "Projection",
    "SameGroup",
    "ages_of",
    "genres_of",
    "map_items",
    "map_users",
    "nearest",
    "pca",
    "reason_map",
    "reason_sentences",
    "same_group",
    "tsne",
]
