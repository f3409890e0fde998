"""The names that settings had in version 0.1, so that its run folders still open."""

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
}


def renamed(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the same settings under their current names."""
    return {names.get(key, key): value for key, value in settings.items()}
