"""One GPU: training speed compared with the hardware limit, and the speed of explanations.

The limit of a step is the longer of two times. One is its floating-point operations at the rate of
a large matrix product. The other is the bytes that its kernels read and write at the rate of a
large copy. Both rates are measured in the same run and in the same precision.
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
from whence.engine.trainable import Precision
from whence.errors import InputError
from whence.explainers import explain_batch
from whence.explainers.shapley import Shapley
from whence.models import Recommender
from whence.training.config import TrainingConfig
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
    """Yield the rates of training, if there is a GPU and the data are available."""
    if not torch.cuda.is_available():
        print("Skipped: this machine has no GPU.")
        return
    copied = copy_rate()
    for name, max_len in SETTINGS:
        try:
            split = last_two(load(name))
        except InputError as problem:
            print(f"Skipped {name}: {problem}")
            continue
        if name == seeds.DATA:
            yield from seeds.measure_on(split, "cuda", "on a GPU", floor=5.0, goal=8.0)
        for precision, dtype in PRECISIONS.items():
            multiplied = product_rate(dtype)
            runs = [steps_per_second(split, max_len, precision) for _ in range(RUNS)]
            operations, traffic = work_of_a_step(split, max_len, precision)
            by_operations, by_bytes = operations / multiplied, traffic / copied
            print(
                f"{name}, max_len {max_len}, {precision}: {operations / 1e9:.2f} GFLOP and "
                f"{traffic / 1e6:.0f} MB per step; {multiplied / 1e12:.0f} TFLOP/s and "
                f"{copied / 1e12:.2f} TB/s measured"
            )
            which = "matrix products" if by_operations > by_bytes else "memory bandwidth"
            yield Record(
                f"training {name} with max_len {max_len} in {precision} on a GPU",
                statistics.median(runs) * BATCH,
                BATCH / max(by_operations, by_bytes),
                f"hardware limit ({which})",
                "sequences/s",
                floor=0.0,
                goal=0.0,
                more_is_better=True,
            )


def steps_per_second(split: Split, max_len: int, precision: Precision) -> float:
    """Return the rate of a new training."""
    training = start_training(split, max_len, precision)
    for _ in range(WARM_UP):
        training.advance()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(STEPS):
        training.advance()
    torch.cuda.synchronize()
    training.read_losses()
    return STEPS / (time.perf_counter() - start)


def start_training(split: Split, max_len: int, precision: Precision) -> Training[Recommender]:
    """Return a training of the model that is compared with peers."""
    sizes = {"max_len": max_len, "dim": 64, "n_blocks": 2, "n_heads": 1, "dropout": 0.2}
    config = TrainingConfig(batch_size=BATCH, precision=precision)
    return new_training(split, "sasrec", sizes, config, [0], "cuda")


def work_of_a_step(split: Split, max_len: int, precision: Precision) -> tuple[float, float]:
    """Return the floating-point operations of a step, and the bytes its kernels move."""
    training = start_training(split, max_len, precision)
    training.advance()  # the first step creates the optimizer's moments
    operations, traffic = FlopCounterMode(display=False), Traffic()
    with operations, traffic:
        training.advance()
    return float(operations.get_total_flops()), float(traffic.bytes)


class Traffic(TorchDispatchMode):
    """Sum the sizes of inputs and outputs of every operation, except views."""

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
            # A look-up reads only the rows it returns, not the whole table.
            read = args[1:] if func in LOOK_UPS else args
            moved = {
                id(one): one for one in tree_leaves((read, kwargs, out)) if torch.is_tensor(one)
            }
            self.bytes += sum(one.numel() * one.element_size() for one in moved.values())
        return out


def product_rate(dtype: torch.dtype, size: int = 8_192) -> float:
    """Return the floating-point operations per second of a large matrix product."""
    left, right = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: left @ right)


def explanations() -> Iterator[Record]:
    """Yield the time of Shapley values and their errors for many full-length histories."""
    if not torch.cuda.is_available():
        print("Skipped: this machine has no GPU.")
        return
    try:
        split = last_two(load(EXPLAINED))
    except InputError as problem:
        print(f"Skipped {EXPLAINED}: {problem}")
        return
    for name, max_len in (("sasrec", 50), ("bert4rec", 49)):
        config = TrainingConfig(steps=STEPS_BEFORE_EXPLAINING)
        model = fit(split, name, {"max_len": max_len}, config, 0, "cuda", show_progress=False).model
        cases = split.held["validation"]
        cases = cases[np.flatnonzero(cases.ends - cases.starts >= max_len)[:HISTORIES]]
        batch = torch.from_numpy(cases.histories(max_len)).cuda()
        targets = torch.from_numpy(cases.targets).cuda()
        seconds = []
        for _ in range(1 + RUNS):  # the first warms up
            start = time.perf_counter()
            explain_batch(model, batch, targets, Shapley(coalitions=COALITIONS))
            seconds.append(time.perf_counter() - start)
        yield Record(
            f"Shapley values of {len(batch):,} histories of {max_len} items from "
            f"{COALITIONS:,} coalitions, {name}, n_blocks 2, on a GPU",
            statistics.median(seconds[1:]),
            SECONDS_TO_EXPLAIN,
            "limit",
            "s",
        )


def copy_rate(size: int = 2**31) -> float:
    """Return the bytes read and written per second in a large copy."""
    source, target = (torch.randn(size // 4, device="cuda") for _ in range(2))
    return 2 * size / seconds_of(lambda: target.copy_(source))


def seconds_of(work: Callable[[], object], repeats: int = 20) -> float:
    """Return the median duration by the GPU's clock."""
    taken = []
    for _ in range(repeats + 3):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        taken.append(start.elapsed_time(end) / 1e3)
    return statistics.median(taken[3:])
