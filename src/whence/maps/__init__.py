"""Maps of what a model has learned: where it puts items and users, and who is near whom.

`map_items` and `map_users` draw them up in two dimensions, by `pca` or `tsne`; `nearest` finds
neighbours in all dimensions, and `same_group` says how often they are alike in what the model was
never told, such as the genre of a film or the age of a user; `find_similar_users` counts a user's
neighbours who chose an item. `reason_map` shows how one history is
read for several targets, and `reason_sentences` says it in words.
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
