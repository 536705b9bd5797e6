"""Importance of tokens, one file a kind of source; importing the package registers them."""

import attn_faithful.attributions.gradients
import attn_faithful.attributions.internals
import attn_faithful.attributions.layers
import attn_faithful.attributions.learned_heads
import attn_faithful.attributions.occlusion
import attn_faithful.attributions.signed
import attn_faithful.attributions.states
import attn_faithful.attributions.value_norm
import attn_faithful.attributions.value_zeroing  # noqa: F401
