"""One file a faithfulness test; importing the package registers them, and the registry is the metric table."""

# tables show the tests in this order
# isort: off
import attn_faithful.evaluators.attefa
import attn_faithful.evaluators.correlation
import attn_faithful.evaluators.permutation
import attn_faithful.evaluators.adversarial
import attn_faithful.evaluators.flips
import attn_faithful.evaluators.erasure
import attn_faithful.evaluators.entropy
import attn_faithful.evaluators.plausibility  # noqa: F401
