"""One GPU: sequences trained a second, what share that is of what it can do, and explaining.

The ceiling of a step is the longer of two times: its floating-point operations at the rate of a
large product of matrices, and the bytes that its kernels read and write at the rate of a large
copy, both rates measured in the same run and in the same precision.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

import seeds
from measuring import RUNS, Record
from whence.data import Split, last_two, load
from whence.engine import Training
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explainers.shapley import Shapley
from whence.models import Recommender
from whence.training.config import Precision, TrainingConfig
from whence.training.recommenders import fit, new_training

BATCH = 128
STEPS, WARM_UP = 1_000, 20
SETTINGS = (("amazon-games-sasrec", 25), ("ml-1m-sasrec", 200))
EXPLAINED, HISTORIES, COALITIONS = "ml-1m-sasrec", 1_000, 4_096
STEPS_BEFORE_EXPLAINING = 300
SECONDS_TO_EXPLAIN = 5.0
LOOK_UPS = {
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_select.default,
    torch.ops.aten.embedding.default,
    torch.ops.aten.searchsorted.Tensor,
}
PRECISIONS: dict[Precision, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def measure() -> Iterator[Record]:
    """Where there is a GPU, and the data are found."""
    if not torch.cuda.is_available():
        print("no GPU here")
        return
    copied = copy_rate()
    for name, length in SETTINGS:
        try:
            split = last_two(load(name))
        except InputError as problem:
            print(f"{name} is not measured: {problem}")
            continue
        if name == seeds.DATA:
            yield from seeds.on(split, "cuda", "on a GPU", floor=5.0, goal=8.0)
        for precision, dtype in PRECISIONS.items():
            multiplied = product_rate(dtype)
            runs = [steps_per_second(split, length, precision) for _ in range(RUNS)]
            operations, traffic = work_of_a_step(split, length, precision)
            by_operations, by_bytes = operations / multiplied, traffic / copied
            print(
                f"{name}, length {length}, {precision}: {operations / 1e9:.2f} GFLOP and "
                f"{traffic / 1e6:.0f} MB a step; {multiplied / 1e12:.0f} TFLOP/s and "
                f"{copied / 1e12:.2f} TB/s measured"
            )
            which = "products of matrices" if by_operations > by_bytes else "memory bandwidth"
            yield Record(
                f"training {name} at length {length} in {precision} on a GPU",
                statistics.median(runs) * BATCH,
                BATCH / max(by_operations, by_bytes),
                f"ceiling of {which}",
                "sequences/s",
                floor=0.0,
                goal=0.0,
                more_is_better=True,
            )


def steps_per_second(split: Split, length: int, precision: Precision) -> float:
    """Of a fresh training."""
    training = fresh(split, length, precision)
    for _ in range(WARM_UP):
        training.advance()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        training.advance()
    torch.cuda.synchronize()
    training.read_losses()
    return STEPS / (time.perf_counter() - start)


def fresh(split: Split, length: int, precision: Precision) -> Training[Recommender]:
    """The model of the comparison with the peers, at any length."""
    sizes = {"max_len": length, "dim": 64, "n_blocks": 2, "n_heads": 1, "dropout": 0.2}
    config = TrainingConfig(batch_size=BATCH, precision=precision)
    return new_training(split, "sasrec", sizes, config, [0], "cuda")


def work_of_a_step(split: Split, length: int, precision: Precision) -> tuple[float, float]:
    """Floating-point operations of its products, and bytes through its kernels."""
    training = fresh(split, length, precision)
    training.advance()  # the first step makes the optimiser's moments
    operations, traffic = FlopCounterMode(display=False), Traffic()
    with operations, traffic:
        training.advance()
    return float(operations.get_total_flops()), float(traffic.bytes)


class Traffic(TorchDispatchMode):
    """Adds up the sizes of what every operation takes and gives, views apart."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Count one operation and run it."""
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            # Of a table that is looked up, only what is found is read.
            read = args[1:] if func in LOOK_UPS else args
            moved = {
                id(one): one for one in tree_leaves((read, kwargs, out)) if torch.is_tensor(one)
            }
            self.bytes += sum(one.numel() * one.element_size() for one in moved.values())
        return out


def product_rate(dtype: torch.dtype, size: int = 8_192) -> float:
    """Floating-point operations a second in a large product."""
    left, right = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: left @ right)


def explanations() -> Iterator[Record]:
    """Shapley values of many histories of full length, with their errors."""
    if not torch.cuda.is_available():
        print("no GPU here")
        return
    try:
        split = last_two(load(EXPLAINED))
    except InputError as problem:
        print(f"{EXPLAINED} is not measured: {problem}")
        return
    for name, length in (("sasrec", 50), ("bert4rec", 49)):
        config = TrainingConfig(steps=STEPS_BEFORE_EXPLAINING)
        model = fit(split, name, {"max_len": length}, config, 0, "cuda", show_progress=False).model
        cases = split.held["validation"]
        cases = cases[np.flatnonzero(cases.ends - cases.starts >= length)[:HISTORIES]]
        batch = torch.from_numpy(cases.histories(length)).cuda()
        targets = torch.from_numpy(cases.targets).cuda()
        seconds = []
        for _ in range(1 + RUNS):  # the first warms up
            start = time.perf_counter()
            explain_batch(model, batch, targets, Shapley(coalitions=COALITIONS))
            seconds.append(time.perf_counter() - start)
        yield Record(
            f"Shapley values of {len(batch):,} histories of {length} items by "
            f"{COALITIONS:,} coalitions, {name}, b = 2, on a GPU",
            statistics.median(seconds[1:]),
            SECONDS_TO_EXPLAIN,
            "limit",
            "s",
        )


def copy_rate(size: int = 2**31) -> float:
    """Bytes read and written a second in a large copy."""
    source, target = (torch.randn(size // 4, device="cuda") for _ in range(2))
    return 2 * size / seconds_of(lambda: target.copy_(source))


def seconds_of(work: Callable[[], object], repeats: int = 20) -> float:
    """The median, by the GPU's own clock."""
    taken = []
    for _ in range(repeats + 3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(taken[3:])
