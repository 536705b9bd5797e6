"""Attention classifiers and the protocol that every test speaks."""

from .configuration import AttentionClassifierConfig
from .modeling import AttentionClassifier, AttentionClassifierOutput
from .protocol import Affine, AttentionModel, Encoded

__all__ = [
    "Affine",
    "AttentionClassifier",
    "AttentionClassifierConfig",
    "AttentionClassifierOutput",
    "AttentionModel",
    "Encoded",
]
