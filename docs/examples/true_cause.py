"""Which explainer names the true cause? Trains SASRec on a world and asks all of them.

    python docs/examples/true_cause.py [--versions 6] [--picture true-cause.png]

Prints a Markdown table and draws a picture if asked; about ten minutes on 2 CPU cores.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

import whence
from whence.explainers import EXPLAINERS, compare_batch
from whence.measure import SeedMean, mean_over_seeds
from whence.report.charts import interval_chart, to_png
from whence.trust import precision_at_cause
from whence.worlds import REASONS, WorldConfig, make_world

LENGTH, STEPS, SEEDS, CASES = 20, 2_500, 5, 500


def main() -> None:
    """Measure precision at the true cause, for each kind of reason, over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", type=int, default=WorldConfig.versions)
    parser.add_argument("--picture", type=Path)
    chosen = parser.parse_args()
    world = make_world(WorldConfig(users=3_000, versions=chosen.versions))
    run = whence.train(
        world.interactions,
        model_settings={"length": LENGTH},
        training={"steps": STEPS},
        seeds=SEEDS,
    )
    found: dict[str, dict[str, SeedMean]] = {}
    for reason in REASONS:
        questions = world.questions(reason, LENGTH, CASES)
        batch = torch.from_numpy(questions.cases.histories(LENGTH))
        targets = torch.from_numpy(questions.cases.targets)
        by_seed = [
            {
                name: precision_at_cause(explanation, questions).value
                for name, explanation in compare_batch(
                    model, batch, targets, list(EXPLAINERS), seed
                ).items()
            }
            for seed, model in run.models.items()
        ]
        found[reason] = {
            name: mean_over_seeds([values[name] for values in by_seed]) for name in EXPLAINERS
        }
    print(f"| explainer | {' | '.join(REASONS)} |")
    print(f"|---|{'---|' * len(REASONS)}")
    for name in EXPLAINERS:
        print(f"| {name} | {' | '.join(str(found[reason][name]) for reason in REASONS)} |")
    if chosen.picture:
        chart = interval_chart(found["caused"], "precision at the true cause")
        chosen.picture.write_bytes(to_png(chart))


if __name__ == "__main__":
    main()
