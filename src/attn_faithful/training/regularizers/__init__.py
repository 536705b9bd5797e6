"""Losses that are added in training, one file each; importing the package registers them."""

import attn_faithful.training.regularizers.deceive
import attn_faithful.training.regularizers.diversity
import attn_faithful.training.regularizers.leverage
import attn_faithful.training.regularizers.rationale
import attn_faithful.training.regularizers.stability
import attn_faithful.training.regularizers.tying  # noqa: F401
