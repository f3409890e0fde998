"""Networks that name the inputs they used (Afchar & Hennequin 2020).

A mixture of experts inside one network. Expert i sees only the feature groups in its subset S_i,
simple experts are preferred to those that contain them, and the selection is the attribution.

| question | names |
|---|---|
| which groups may each expert see? | `Family`, `read_family`, `diagram_of`, `draw_family` |
| layers that keep experts apart | `InputLinear`, `LinkedLinear`, `GroupEmbedding`, … |
| which expert is selected? | `Selection` with a `Confidence` |
| what is predicted? | `Binary`, `Classes`, `Real` |
| how do experts learn? | a `Recipe`; `RECIPES` has the published ones |
| models of tables | `InterpretableMLP` and `OrdinaryMLP`, trained by `fit` |
| models of sequences | `InterpretableTransformer`, `InterpretableGRU` and ordinary ones |
| which subsets are needed? | `learn_family` |
"""

from whence.experts.diagram import Diagram, diagram_of, draw_family
from whence.experts.embedding import EmbeddingTable, GroupEmbedding
from whence.experts.family import Family, Group, Subset, parse_family, read_family
from whence.experts.gru import ExpertGRU, InterpretableGRU, OrdinaryGRU
from whence.experts.learned import LearnedFamily, all_subsets, learn_family
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.mlp import InterpretableMLP, OrdinaryMLP
from whence.experts.selection import (
    DEFAULT,
    PLOTTED,
    RECIPES,
    Confidence,
    Recipe,
    Selection,
    accuracy,
    attribution_accuracy,
    expected_loss,
)
from whence.experts.sequential import SequentialModel
from whence.experts.tabular import TabularModel
from whence.experts.targets import Binary, Classes, Real, Target
from whence.experts.training import fit, shuffled
from whence.experts.transformer import (
    ExpertAttention,
    ExpertNorm,
    InterpretableTransformer,
    OrdinaryTransformer,
)

__all__ = [
    "DEFAULT",
    "PLOTTED",
    "RECIPES",
    "Binary",
    "Classes",
    "Confidence",
    "Diagram",
    "EmbeddingTable",
    "ExpertAttention",
    "ExpertGRU",
    "ExpertNorm",
    "Family",
    "Group",
    "GroupEmbedding",
    "InputLinear",
    "InterpretableGRU",
    "InterpretableMLP",
    "InterpretableTransformer",
    "LearnedFamily",
    "LinkedLinear",
    "OrdinaryGRU",
    "OrdinaryMLP",
    "OrdinaryTransformer",
    "Real",
    "Recipe",
    "Selection",
    "SequentialModel",
    "Subset",
    "TabularModel",
    "Target",
    "accuracy",
    "all_subsets",
    "attribution_accuracy",
    "diagram_of",
    "draw_family",
    "expected_loss",
    "fit",
    "learn_family",
    "parse_family",
    "read_family",
    "shuffled",
]
