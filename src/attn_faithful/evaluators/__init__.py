"""One file a faithfulness test; importing the package registers them, and the registry is the metric table."""

import attn_faithful.evaluators.adversarial
import attn_faithful.evaluators.attefa
import attn_faithful.evaluators.correlation
import attn_faithful.evaluators.permutation  # noqa: F401
