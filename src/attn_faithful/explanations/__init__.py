"""Explanations of other tools, by places in the text: a source file's rows, and scores of a model's words."""

from __future__ import annotations

from attn_faithful.explanations.base import Explanations, ScoredText, WordScores
from attn_faithful.explanations.captum import from_captum
from attn_faithful.explanations.ferret import from_ferret
from attn_faithful.explanations.inseq import from_inseq
from attn_faithful.explanations.lime import from_lime
from attn_faithful.explanations.shap import from_shap

__all__ = [
    "Explanations",
    "ScoredText",
    "WordScores",
    "from_captum",
    "from_ferret",
    "from_inseq",
    "from_lime",
    "from_shap",
]
