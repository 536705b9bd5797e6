"""One file a faithfulness test; importing the package registers them (see `metric_table` for the numbers they give)."""

# tables show the tests in this order
# isort: off
import attn_faithful.evaluators.correlation
import attn_faithful.evaluators.permutation
import attn_faithful.evaluators.adversarial
import attn_faithful.evaluators.flips
import attn_faithful.evaluators.erasure
import attn_faithful.evaluators.polarity
import attn_faithful.evaluators.stability
import attn_faithful.evaluators.entropy
import attn_faithful.evaluators.plausibility
import attn_faithful.evaluators.impermissible
import attn_faithful.evaluators.randomisation  # noqa: F401
