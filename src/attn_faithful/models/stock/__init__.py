"""Stock transformers classifiers behind the protocol: their attention is read, replaced and run on from there."""
