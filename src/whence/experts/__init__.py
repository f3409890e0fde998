"""Networks that name the inputs they used (Afchar & Hennequin 2020).

A mixture of experts inside one network: expert i sees only the feature groups in its subset S_i,
simple experts are preferred to those that contain them, and who is selected is the attribution.

Who may see what: `Family`, or `read_family` from a file; `diagram_of` it and `draw_family`.
Layers that see no more: `InputLinear`, `LinkedLinear`, `GroupEmbedding`, `ExpertAttention`,
`ExpertGRU`, `ExpertNorm`. Who is selected: `Selection` by a `Confidence`. What is predicted:
`Binary`, `Classes`, `Real`. How they learn: a `Recipe`, of which `RECIPES` has the published ones.
Models: `InterpretableMLP` beside `OrdinaryMLP`, trained by `fit`; `InterpretableTransformer` and
`InterpretableGRU` for sequences in two halves, beside theirs. `TOYS` have known attributions, which
`attribution_accuracy` holds them against; `learn_family` finds the subsets themselves.
"""

from whence.experts.attention import ExpertAttention, ExpertNorm
from whence.experts.attribution import accuracy, attribution_accuracy
from whence.experts.diagram import Diagram, diagram_of, draw_family
from whence.experts.embedding import GroupEmbedding, Table
from whence.experts.family import Family, Group, Subset
from whence.experts.gru import ExpertGRU, InterpretableGRU, OrdinaryGRU
from whence.experts.learned import LearnedFamily, all_subsets, learn_family
from whence.experts.linear import InputLinear, LinkedLinear
from whence.experts.mlp import InterpretableMLP, OrdinaryMLP
from whence.experts.objective import DEFAULT, PLOTTED, RECIPES, Recipe, expected_loss
from whence.experts.reading import parse_family, read_family
from whence.experts.selection import Confidence, Selection
from whence.experts.sequential import SequentialModel
from whence.experts.tabular import TabularModel
from whence.experts.targets import Binary, Classes, Real, Target
from whence.experts.training import fit, shuffled
from whence.experts.transformer import InterpretableTransformer, OrdinaryTransformer
from whence_studies.toy_data import TOYS, Toy

__all__ = [
    "DEFAULT",
    "PLOTTED",
    "RECIPES",
    "TOYS",
    "Binary",
    "Classes",
    "Confidence",
    "Diagram",
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
    "Table",
    "TabularModel",
    "Target",
    "Toy",
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
