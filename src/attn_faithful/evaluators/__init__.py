"""One file a faithfulness test; importing the package registers them, and the registry is the metric table."""

import attn_faithful.evaluators.attefa
import attn_faithful.evaluators.correlation  # noqa: F401
