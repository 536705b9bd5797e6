"""One file a faithfulness test; the registry of evaluators is the metric table."""
