"""Does training find the needed subsets? Learns them on toy tasks, where they are known.

    python docs/examples/learned_subsets.py [--seeds 5] [--steps 300]

The tasks get additional noise columns. Training starts with an expert for every single group, every
pair and everything, and keeps those it selects. The script prints how often these are exactly the
needed ones, and the largest share of cases that went to another expert in the last round.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor

from whence.experts import LearnedFamily, learn_family
from whence.randomness import Randomness
from whence_studies.toy_data import TOYS

TASKS = (("b", 2), ("d", 0), ("d", 2))
"""Toy tasks, and their number of noise columns."""
BUDGETS = (3, 6)


def main() -> None:
    """Print one line per task and budget."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    chosen = parser.parse_args()
    headings = ("task", "noise columns", "experts at first", "budget", "found exactly")
    print(f"| {' | '.join(headings)} | largest share of other experts |")
    print("|---|---|---|---|---|---|")
    for name, noise in TASKS:
        for budget in BUDGETS:
            found = [learn(name, noise, budget, chosen.steps, seed) for seed in range(chosen.seeds)]
            right = sum(one.subsets == needed(name) for one in found)
            others = max(others_share(one, needed(name)) for one in found)
            first = len(found[0].rounds[0].family)
            of = f"{right} of {chosen.seeds}"
            print(f"| {name} | {noise} | {first} | {budget} | {of} | {others:.1%} |")


def needed(name: str) -> set[frozenset[str]]:
    """Return the subsets that the clusters of the task need."""
    family = TOYS[name].family
    experts = {family.index(cluster.expert) for cluster in TOYS[name].clusters}
    return {frozenset(family.subsets[expert].groups) for expert in experts}


def learn(name: str, noise: int, budget: int, steps: int, seed: int) -> LearnedFamily:
    """Learn the subsets, with new noise in every batch."""
    toy = TOYS[name]
    own = toy.family.n_columns
    generator = torch.Generator().manual_seed(seed)

    def with_noise(rows: Tensor) -> Tensor:
        return torch.cat((rows, torch.randn(len(rows), noise, generator=generator)), dim=1)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        return ((with_noise(rows), labels) for rows, labels in toy.batches(steps, 128, seed))

    groups = {f"x{place + 1}": [place] for place in range(own + noise)}
    rows = with_noise(toy.draw(2_048, Randomness(seed).torch("evaluation")).rows)
    return learn_family(
        groups, batches, rows, toy.hidden_dims, budget=budget, seed=seed, learning_rate=0.02
    )


def others_share(learned: LearnedFamily, right: set[frozenset[str]]) -> float:
    """Return the share of cases in the last round that went to an expert that is not needed."""
    last = learned.rounds[-1]
    pairs = zip(last.family.subsets, last.shares, strict=True)
    return sum(share for subset, share in pairs if frozenset(subset.groups) not in right)


if __name__ == "__main__":
    main()
