"""How well RecTools' SASRec ranks after each second of training, of processor time on one thread.

`python quality_rectools.py TEXT LOSS SECONDS CURVE` trains until the ranking no longer improves, or
for that many seconds, and writes `[seconds, NDCG@10]` of every validation to the file CURVE.

The model, the batches, dropout and the learning rate are RecTools' defaults, but for the sizes
that are compared. In its favour, the clock stops during validations, which use the embeddings of
RecTools but not its slower ranking. Lightning's progress bar, log and checkpoints are off.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from prepare_rectools import read_interactions
from pytorch_lightning import Callback, LightningModule, Trainer, seed_everything
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import SASRecModel
from train_rectools import hold_out

MAX_LEN, DIM, BATCH, NEGATIVES = 50, 64, 128, 256
DROPOUT = 0.2
THREADS = 1
VALIDATE_EVERY = 100
"""Steps between validations."""
PATIENCE = 20
"""Validations without a better one before training stops."""
TOP = 10
AT_ONCE = 512
"""Users that are ranked at once."""


class Ranking:
    """NDCG@10 of the validation events, among all items that the user has not seen."""

    def __init__(self, model: SASRecModel, fitted: Dataset, targets: pd.Series) -> None:
        preparator = model.data_preparator
        data = preparator.transform_dataset_u2i(fitted, targets.index)
        self.batches = preparator.get_dataloader_recommend(data, AT_ONCE)
        wanted = targets.loc[data.user_id_map.external_ids]
        # An event whose item is in no training event cannot be found.
        known = wanted.map(preparator.item_id_map.to_internal).fillna(0).astype(int)
        self.targets = torch.from_numpy(known.to_numpy())
        self.events = len(targets)
        seen = data.interactions.df.sort_values(Columns.User)
        self.seen_users, self.seen_items = (
            seen[column].to_numpy().astype(np.int64) for column in (Columns.User, Columns.Item)
        )

    @torch.no_grad()
    def measure(self, module: LightningModule) -> float:
        """Return the mean gain; the model is left ready to train."""
        module.eval()
        items = module.torch_model.item_model.get_all_embeddings()
        total, first = 0.0, 0
        for batch in self.batches:
            rows = module.torch_model.encode_sessions(batch, items)[:, -1]
            total += self._gains(rows @ items.T, first)
            first += len(rows)
        module.train()
        return total / self.events

    def _gains(self, scores: torch.Tensor, first: int) -> float:
        """Return the sum of the gains of users that follow one another."""
        targets = self.targets[first : first + len(scores)]
        own = scores.gather(1, targets[:, None])
        start, end = np.searchsorted(self.seen_users, (first, first + len(scores)))
        scores[self.seen_users[start:end] - first, self.seen_items[start:end]] = -torch.inf
        scores[:, 0] = -torch.inf  # the item that pads
        ranks = (scores > own).sum(dim=1)
        return float((1 / torch.log2(ranks + 2.0))[(ranks < TOP) & (targets > 0)].sum())


class Curve(Callback):
    """Measure every few steps outside of the clock, and stop when nothing improves."""

    def __init__(self, limit: float, path: Path, ranking: Ranking) -> None:
        self.limit, self.path, self.ranking = limit, path, ranking
        self.steps = 0
        self.seconds = self.start = 0.0
        self.points: list[tuple[float, float]] = []

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start the clock."""
        self.start = time.process_time()

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: dict[str, torch.Tensor],
        batch_idx: int,
    ) -> None:
        """Count a step, and measure if it is time."""
        self.steps += 1
        if self.steps % VALIDATE_EVERY:
            return
        self.seconds += time.process_time() - self.start
        self.points.append((self.seconds, self.ranking.measure(module)))
        self.path.write_text(json.dumps(self.points))
        values = [value for _, value in self.points]
        since_best = len(values) - 1 - values.index(max(values))
        trainer.should_stop = since_best >= PATIENCE or self.seconds >= self.limit
        self.start = time.process_time()


def measure(text: Path, loss: str, seconds: float, path: Path) -> None:
    """Train and write the curve."""
    table = read_interactions(text)
    fitted, history, users = hold_out(table)
    model = SASRecModel(
        n_blocks=2,
        n_heads=1,
        n_factors=DIM,
        dropout_rate=DROPOUT,
        session_max_len=MAX_LEN,
        loss=loss,
        n_negatives=NEGATIVES,
        lr=1e-3,
        batch_size=BATCH,
    )
    # `fit` prepares the data in the same way.
    model.data_preparator.process_dataset_train(fitted)
    targets = history.get_raw_interactions().groupby(Columns.User)[Columns.Item].last()
    ranking = Ranking(model, fitted, targets.loc[users])
    # The documentation of RecTools says to replace the trainer like this.
    model._trainer = quiet_trainer(Curve(seconds, path, ranking))
    model.fit(fitted)


def quiet_trainer(curve: Curve) -> Trainer:
    """Return RecTools' trainer, which stops when the curve says so."""
    return Trainer(
        min_epochs=0,
        max_epochs=-1,
        accelerator="cpu",
        devices=1,
        callbacks=[curve],
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
    )


def main() -> None:
    """Measure as the command line says."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(THREADS)
    seed_everything(0)
    measure(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
    print(json.dumps({"written": True}))


if __name__ == "__main__":
    main()
