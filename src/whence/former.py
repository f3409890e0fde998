"""What former formats called things, so that run folders written with them still open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

MODEL: Final = {
    "length": "max_len",
    "width": "dim",
    "blocks": "n_blocks",
    "heads": "n_heads",
    "spread": "init_std",
    "mask": "mask_prob",
    "last_mask": "last_mask_prob",
    "layers": "hidden_dims",
    "negatives": "n_negatives",
    "vectors_decay": "embedding_decay",
    "layers_decay": "layer_decay",
    "attention": "attention_dim",
    "ids": "use_ids",
    "classes": "n_classes",
    "disliked": "dislike_threshold",
    "balanced": "class_balanced",
    "ratings": "predict_ratings",
    "links": "linked",
    "taught": "embeddings_trained_by",
    "genders": "n_genders",
    "ages": "n_ages",
    "occupations": "n_occupations",
    "genres": "n_genres",
}
TRAINING: Final = {
    "batch": "batch_size",
    "optimiser": "optimizer",
    "second_moment": "beta2",
    "decay": "lr_decay",
    "measure": "metric",
    "epoch": "average_every",
    "swa_pace": "swa_lr_factor",
    "absence": "part_dropout",
    "begun_with": "init_from",
}
PREPARATION: Final = {
    "min_user": "min_user_events",
    "min_item": "min_item_events",
    "core": "k_core",
}
LOSSES: Final = {"full": "softmax", "sampled": "bce"}
"""The losses of BERT4Rec up to run format 2. SASRec had only bce and did not name it."""
SPLITS: Final = {"leave-one-out": "last-two", "leave-last-out": "last-one"}


def renamed(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the same settings under their current names."""
    return {names.get(key, key): value for key, value in settings.items()}


def current_run(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a `run.json` of version 0.1 under current names."""
    training = renamed(described["training"], TRAINING)
    training["split"] = SPLITS.get(training["split"], training["split"])
    training["protocol"] = current_protocol(training["protocol"])
    return {
        **described,
        "model_settings": renamed(described["model_settings"], MODEL),
        "training": training,
        "data": {**described["data"], "origin": current_origin(described["data"]["origin"])},
    }


def with_loss(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a `run.json` of format 1 or 2 with the current name of its loss."""
    settings = dict(described["model_settings"])
    if described["model"] == "sasrec":
        settings["loss"] = "bce"
    elif described["model"] == "bert4rec" and settings.get("loss") in tuple(LOSSES):
        settings["loss"] = LOSSES[settings["loss"]]
    return {**described, "model_settings": settings}


def current_origin(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return where data came from, with the current names of its preparation."""
    if "preparation" not in origin:
        return dict(origin)
    return {**origin, "preparation": [renamed(one, PREPARATION) for one in origin["preparation"]]}


def current_metrics(metrics: Any) -> Any:  # noqa: ANN401
    """Return the metrics of a seed with the current names of splits in their protocols."""
    if isinstance(metrics, Mapping):
        return {
            key: current_protocol(value) if key == "protocol" else current_metrics(value)
            for key, value in metrics.items()
        }
    return metrics


def current_protocol(protocol: str) -> str:
    """Return a protocol that names the split as it is named today."""
    for old, new in SPLITS.items():
        protocol = protocol.replace(f"{old} by ", f"{new} split by ")
    return protocol
