"""Names for the items of a world, which say what the items are to each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whence.arrays import Ints32
from whence.data.catalog import Catalog
from whence.worlds.designs import JOINT, RIVAL, SHARED, Design
from whence.worlds.films import NOUNS, unique_names
from whence.worlds.world_config import GENRES

ARTICLES: Final = """
Basket Blanket Blender Bottle Bowl Brush Bucket Cable Camera Candle Chair Charger Coat Cup Curtain
Desk Drill Fan Fork Frame Glove Grill Hammer Headset Heater Kettle Keyboard Knife Ladder Lamp
Lantern Mat Mirror Mug Oven Pan Pillow Plate Pot Printer Puzzle Rack Radio Razor Rug Saw Scale
Scarf Shelf Speaker Spoon Stool Table Tent Toaster Towel Tray Umbrella Vase Wallet
""".split()
DEPARTMENTS: Final = """
Kitchen Garden Bath Office Sports Toys Beauty Music Tools Lighting Travel Pets Baby Camping
Electronics
""".split()
STYLES: Final = """
Rock Jazz Pop Classical Folk Metal Blues Electronic Soul Reggae Country Ambient Funk Latin Gospel
""".split()
WORDS: Final[Mapping[str, tuple[list[str], list[str]]]] = {
    "films": (NOUNS, GENRES),
    "shop": (ARTICLES, DEPARTMENTS),
    "music": (NOUNS, STYLES),
}
ENDINGS: Final[Mapping[str, tuple[dict[int, str], str]]] = {
    "films": ({1: " II", 2: " III", SHARED: " (spin-off)", JOINT: " (crossover)"}, "remake"),
    "shop": ({JOINT: " (kit)"}, "brand"),
    "music": ({1: ", part 2", 2: ", part 3", SHARED: " (reprise)", JOINT: " (medley)"}, "version"),
}
"""What follows the name of an item, by its part, and what a rival is called."""


def name_items(generator: str, plan: Design) -> Catalog:
    """Return a catalog of unique titles, with the groups in the column `genres`."""
    nouns, groups = WORDS[generator]
    names, endings = unique_names(plan.stem, nouns), _endings(generator, plan.part)
    return Catalog(
        pa.table(
            {
                "item": np.arange(1, len(plan.stem) + 1),
                "title": pc.binary_join_element_wise(names, endings, ""),
                "genres": pa.array(groups).take(pa.array(plan.mechanism.group % len(groups))),
            }
        )
    )


def _endings(generator: str, part: Ints32) -> pa.Array:
    known, rival = ENDINGS[generator]
    texts = [
        known.get(number, "") if number < RIVAL else f" ({rival} {number - RIVAL + 1})"
        for number in range(int(part.max()) + 1)
    ]
    return pa.array(texts).take(pa.array(part))
