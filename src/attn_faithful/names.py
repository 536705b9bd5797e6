"""Names that flags and recipes may use, known without torch: what is misspelt is told before anything is loaded.

The things themselves lie elsewhere, under the same names; tests/project/test_names.py compares the two.
"""

from __future__ import annotations

# of what --tests names -> its settings
TESTS: dict[str, tuple[str, ...]] = {
    "attefa": (),
    "correlation": ("against", "k", "tie_tolerance"),
    "permutation": ("permutations", "identity"),
    "adversarial": ("method", "eps", "k", "search", "bins", "halvings", "boxes"),
    "flips": ("rankings", "single", "random", "operator", "greedy", "budget", "beam", "beam_budget"),
    "erasure": (
        "rankings",
        "shares",
        "operators",
        "in_distribution",
        "soft_share",
        "draws",
        "beam",
        "beam_budget",
    ),
    "polarity": ("rankings",),
    "stability": ("rankings",),
    "entropy": ("of",),
    "plausibility": ("rankings", "share", "threshold"),
    "impermissible": ("rankings",),
    "randomisation": ("rankings", "draws", "modes", "steps", "tie_tolerance"),
}
SOURCES = (
    "attention",
    "saliency",
    "input_x_gradient",
    "integrated_gradients",
    "leave_one_out",
    "occlusion",
    "attention_gradient",
    "attention_x_gradient",
    "state_saliency",
    "state_leave_one_out",
    "hidden_gradient",
    "raw_attention",
    "value_norm",
    "value_zeroing",
    "rollout",
    "attention_flow",
    "attention_relevance",
    "signed_input_x_gradient",
    "signed_integrated_gradients",
    "signed_leave_one_out",
    "learned_heads",
    "random",
)
NULL_ATTENTIONS = ("uniform", "random")  # --controls of evaluate
WIEGREFFE_PINTER = ("uniform", "mlp", "imposed_uniform", "imposed", "imposed_twin")  # --wiegreffe-pinter of attefa
QUERIES = ("auto", "token", "mean", "all")
UNITS = ("word", "token")
ENCODERS = ("lstm", "gru", "orthogonal_lstm", "mlp", "average", "cnn", "transformer", "none")
ATTENTIONS = ("additive", "dot", "uniform")
PROJECTIONS = ("softmax", "sparsemax", "sparsegen", "entmax15", "entmax")
REGULARIZERS = ("deceive", "diversity", "leverage", "rationale", "stability", "tying")
ATTENTION_REGULARIZERS = ("deceive", "rationale", "stability")  # those that transformers models can have
PARALLEL = ("cells", "data")
DTYPES = ("float32", "bfloat16", "float16")
DEVICES = ("auto", "cpu", "cuda", "mps")  # and cuda:0, cuda:1 and so on

_TRAINED = ("epochs", "patience", "batch_size", "learning_rate", "weight_decay", "select_on", "mixed_precision")
_TWIN = ("objective", "weight", "max_tvd", "start", *_TRAINED, "trackers")

_TEST_SETTINGS = {test: keys for test, keys in TESTS.items() if test != "attefa"}

# part of a recipe -> its keys; parts that are not here hold names of the user's own
KEYS: dict[str, tuple[str, ...]] = {
    "": (
        "name",
        "claim",
        "data",
        "tokenizer",
        "vectors",
        "model",
        "train",
        "twin",
        "variants",
        "seeds",
        "twin_seeds",
        "evaluation",
        "wiegreffe_pinter",
        "roar",
        "expected",
        "grid",
        "smoke",
    ),
    "data": (
        "source",
        "name",
        "folder",
        "text_column",
        "query_column",
        "label_column",
        "keep",
        "drop",
        "label_map",
        "local",
        "mock",
        "rationale",
        "impermissible",
        "multi_label",
        "drop_none",
        "validation_share",
        "limit",
        "seed",
        "encoding",
        "seen",
    ),
    "tokenizer": ("pre_tokenizer", "min_df", "lowercase", "digits", "max_vocabulary", "max_length"),
    "vectors": ("path", "missing"),
    "model": (
        "architecture",
        "embedding_size",
        "encoder",
        "hidden_size",
        "num_layers",
        "bidirectional",
        "num_heads",
        "kernel_sizes",
        "activation",
        "positions",
        "max_positions",
        "attention",
        "attention_size",
        "projection",
        "temperature",
        "sparsegen_lambda",
        "entmax_alpha",
        "learn_alpha",
        "scale",
        "readout",
        "output",
        "dropout",
        "classifier_dropout",
        "freeze_embeddings",
        "sentence_dropout",
    ),
    "train": (
        *_TRAINED,
        "amsgrad",
        "max_grad_norm",
        "select_by",
        "class_weights",
        "trackers",
        "regularizers",
        "masking",
    ),
    "train.regularizers": REGULARIZERS,
    "twin": _TWIN,
    "evaluation": (
        "tests",
        "sites",
        "queries",
        "heads",
        "units",
        "special_tokens",
        "test_settings",
        "sources",
        "extra_sources",
        "controls",
        "target",
        "seed",
    ),
    "evaluation.sources": (
        "reduction",
        "attention_path",
        "operator",
        "sign",
        "outcome",
        "baseline",
        "n_steps",
        "heads",
        "layers",
    ),
    "evaluation.test_settings": tuple(_TEST_SETTINGS),
    **{f"evaluation.test_settings.{test}": keys for test, keys in _TEST_SETTINGS.items()},
    "roar": ("sources", "files", "shares", "recursive"),
    "expected": ("key", "metrics", "rows", "band"),
}
# of the fine-tuning of a transformers model, in the place of "train"
FINE_TUNE = (*_TRAINED, "max_grad_norm", "select_by", "warmup_ratio", "head", "trackers", "regularizers", "masking")
# of the twins of a transformers model, which have more
STOCK_TWIN = (
    *_TWIN,
    "layers",
    "keys",
    "freeze_embeddings",
    "perturbation",
    "sample",
    "lora_rank",
    "max_grad_norm",
)
