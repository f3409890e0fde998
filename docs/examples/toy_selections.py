"""Draw the selected experts on the toy tasks, as in Figure 5 of Afchar & Hennequin (2020).

python docs/examples/toy_selections.py --out docs/images
"""

from __future__ import annotations

import argparse
from pathlib import Path

from whence.experts import RECIPES, Binary, InterpretableMLP, fit
from whence.randomness import Randomness
from whence.report.charts import to_svg
from whence_studies.charts.toy_charts import selection_chart
from whence_studies.toy_data import TOYS


def main() -> None:
    """Train a network for each toy, and draw its selections."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--points", type=int, default=200)
    chosen = parser.parse_args()
    for name, toy in TOYS.items():
        model = InterpretableMLP(
            toy.family,
            toy.hidden_dims,
            Randomness(0).torch("init"),
            recipe=RECIPES["notebook"],
            target=Binary(logarithm="clamped"),
            linked=False,
        )
        fit(model, toy.batches(chosen.steps, 256, seed=0), learning_rate=0.005)
        points = toy.draw(chosen.points, Randomness(0).torch("evaluation")).rows
        # In four dimensions, the last two are those that need both.
        planes = [(first, first + 1) for first in range(0, toy.family.n_columns, 2)]
        chart = selection_chart(model, points, *planes)
        path = chosen.out / f"toy-{name}-selections.svg"
        path.write_text(to_svg(chart, f"Toy ({name}): selected experts"), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
