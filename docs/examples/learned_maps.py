"""What GMF and DeepICF+a learned about films and users, as in the figures of Jain (2019).

    python docs/examples/learned_maps.py --gmf RUN --deepicf RUN [--user 4] [--out maps]

It draws films by DeepICF+a (Figure 3.1a) and by GMF (3.1b), users by GMF (3.2), the attention of
DeepICF+a to one user's history for the films it recommends (2.14), and how often each rating is
given (3.5). It prints the share of neighbours in the same group, the attention in words, and the
ratings with their mean.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import altair as alt
import numpy as np
import torch
from torch import Tensor

from whence.errors import InputError
from whence.maps import LearnedMap, map_items, map_users, reason_map, reason_sentences
from whence.maps.groups import AGE_BANDS, NEIGHBOURS, same_group
from whence.ranking import top_unseen
from whence.recommendation import find_subject
from whence.report.charts import to_png
from whence.report.map_charts import learned_chart, rating_chart, reason_chart
from whence.run import Run, open_run

TARGETS = 5
SCALE = 1.5
"""The scale of the pictures; a larger one makes files of thousands of points large."""

Drawn = tuple[alt.TopLevelMixin, list[str]]
"""A chart, and its content in words."""


def main() -> None:
    """Open both runs, then draw and describe each picture."""
    chosen = _parse()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name, chart, words in pictures(open_run(chosen.gmf), open_run(chosen.deepicf), chosen.user):
        path = chosen.out / f"map-{name}.png"
        path.write_bytes(to_png(chart, SCALE))
        print(path, *words, sep="\n")


def pictures(gmf: Run, deepicf: Run, user: str) -> Iterator[tuple[str, *Drawn]]:
    """Yield a name, a chart and its content in words."""
    by_deepicf, by_gmf = deepicf.first.item_vectors(), gmf.first.item_vectors()
    films = map_items(deepicf.first, deepicf.catalog, by="pca")
    yield "deepicf-films", *drawn(films, by_deepicf, ["Horror", "Action"])
    films = map_items(gmf.first, gmf.catalog, by="t-sne")
    yield "gmf-films", *drawn(films, by_gmf, ["Horror", "Children's"])
    users = map_users(gmf.first, gmf.interactions.users, by="t-sne")
    yield "gmf-users", *drawn(users, gmf.first.user_vectors(), [AGE_BANDS[-1]])
    yield "deepicf-reasons", *attended(deepicf, user)
    yield "ratings", *rated(deepicf)


def drawn(learned: LearnedMap, vectors: Tensor, shown: list[str]) -> Drawn:
    """Return a map, and the neighbours on it compared with those in all dimensions."""
    true = same_group(vectors, learned.groups).by_group
    seen = same_group(torch.from_numpy(learned.points), learned.groups).by_group
    words = [
        f"{name}: {true[name][0]:.1%} of the {NEIGHBOURS} nearest of its members are also in it, "
        f"{seen[name][0]:.1%} of the nearest on the map, and {true[name][1]:.1%} of all."
        for name in shown
    ]
    return learned_chart(learned, shown), words


def attended(run: Run, user: str) -> Drawn:
    """Return the model's attention for the first recommendations to a user."""
    case = find_subject(run, user=user, history=None).as_case()
    (targets,), _ = top_unseen(run.first, case, run.first.config.max_len, TARGETS)
    found = reason_map(run.first, case, targets.tolist(), run.catalog, "attention-last")
    return reason_chart(found), reason_sentences(found)


def rated(run: Run) -> Drawn:
    """Return how often each rating is given."""
    ratings = run.interactions.ratings
    if ratings is None:
        raise InputError("These data have no ratings to count.")
    values, counts = np.unique(ratings, return_counts=True)
    words = [f"{value:g}: {count:,}" for value, count in zip(values, counts, strict=True)]
    words.append(f"The mean of {len(ratings):,} ratings is {ratings.mean(dtype=np.float64):.2f}.")
    return rating_chart(dict(zip(values.tolist(), counts.tolist(), strict=True))), words


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gmf", type=Path, metavar="RUN", required=True)
    parser.add_argument("--deepicf", type=Path, metavar="RUN", required=True)
    parser.add_argument("--user", default="4", help="the user whose history is read")
    parser.add_argument("--out", type=Path, metavar="FOLDER", default=Path("maps"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
