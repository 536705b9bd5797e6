"""The former place of `models.pooled`, which models saved by earlier versions import."""

from attn_faithful.models.pooled import AttentionClassifier as AttentionClassifier
