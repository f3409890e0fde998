"""Does training find the subsets that are needed? Learns them on toy tasks where they are known.

    python docs/examples/learned_subsets.py [--seeds 5] [--steps 300]

Beside the task's own columns stand some of noise. From an expert for every single group, every pair
and everything, training keeps those that it selects; printed is how often they are exactly those
needed, and the largest share of the cases that went to another in the end.
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
"""Toy tasks, and how many columns of noise stand beside theirs."""
BUDGETS = (3, 6)


def main() -> None:
    """A line for every task and budget."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    chosen = parser.parse_args()
    print("| task | columns of noise | experts at first | budget | found exactly | others' share |")
    print("|---|---|---|---|---|---|")
    for name, noise in TASKS:
        for budget in BUDGETS:
            found = [learn(name, noise, budget, chosen.steps, seed) for seed in range(chosen.seeds)]
            right = sum(one.found == needed(name) for one in found)
            others = max(others_share(one, needed(name)) for one in found)
            first = len(found[0].rounds[0].family)
            of = f"{right} of {chosen.seeds}"
            print(f"| {name} | {noise} | {first} | {budget} | {of} | {others:.1%} |")


def needed(name: str) -> set[frozenset[str]]:
    """The subsets that the clusters of the task need."""
    family = TOYS[name].family
    experts = {family.index(cluster.expert) for cluster in TOYS[name].clusters}
    return {frozenset(family.subsets[expert].groups) for expert in experts}


def learn(name: str, noise: int, budget: int, steps: int, seed: int) -> LearnedFamily:
    """With the noise drawn anew for every batch."""
    toy = TOYS[name]
    own = toy.family.n_columns
    generator = torch.Generator().manual_seed(seed)

    def beside(rows: Tensor) -> Tensor:
        return torch.cat((rows, torch.randn(len(rows), noise, generator=generator)), dim=1)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        return ((beside(rows), truth) for rows, truth in toy.batches(steps, 128, seed))

    groups = {f"x{place + 1}": [place] for place in range(own + noise)}
    rows = beside(toy.draw(2_048, Randomness(seed).torch("evaluation")).rows)
    return learn_family(
        groups, batches, rows, toy.hidden_dims, budget=budget, seed=seed, learning_rate=0.02
    )


def others_share(learned: LearnedFamily, right: set[frozenset[str]]) -> float:
    """Of the cases, those whose most selected expert is none of those needed, in the last round."""
    last = learned.rounds[-1]
    pairs = zip(last.family.subsets, last.shares, strict=True)
    return sum(share for subset, share in pairs if frozenset(subset.groups) not in right)


if __name__ == "__main__":
    main()
