"""What a notebook uses: load a model, wrap one's own, test it, explain a text, run a recipe."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attn_faithful._checks import InputError, MissingSourceError, did_you_mean, mapping, names

if TYPE_CHECKING:
    from attn_faithful.reports.explanation import Explanation
    from attn_faithful.reports.result import Result


class TrainedOnWarning(UserWarning):
    """Texts are tested that the model was trained on."""


def load(path: str | Path, **kwargs: Any) -> tuple[Any, Any]:
    """A saved classifier and its tokenizer, ready to analyse; one of transformers' own is wrapped, see `wrap`.

    Args:
        path: a folder or a Hub id.
        kwargs: for ``from_pretrained``. Unless they say otherwise weights are read as float32, and from safetensors
            alone, and no code of the folder's is run.

    Returns:
        (model, tokenizer); the model is in eval mode.

    Raises:
        InputError: the folder does not exist or cannot be read, it holds a model for another task, weights are missing,
            or the tokenizer does not fit the model.
    """
    import torch
    from transformers import AutoModelForSequenceClassification

    from attn_faithful.data.encoding import check_tokenizer_fits
    from attn_faithful.data.model_files import saved_tokenizer, saved_training_texts
    from attn_faithful.models.entry import shown, speaks_protocol, stored_type
    from attn_faithful.models.stock.sparse import restore_projection

    if not Path(path).exists() and (str(path).count("/") != 1 or str(path).startswith((".", "/", "~"))):
        raise InputError(f"There is no folder {path}; give the folder of a saved model or a Hub id such as user/name.")
    kwargs = {"dtype": torch.float32, "trust_remote_code": False, "use_safetensors": True, **kwargs}
    stored = stored_type(path, kwargs["trust_remote_code"])
    try:
        model, info = AutoModelForSequenceClassification.from_pretrained(path, output_loading_info=True, **kwargs)
    except InputError:
        raise
    except Exception as error:  # whatever transformers, torch or the file raise: told with the path
        raise InputError(f"{path} cannot be loaded: {shown(error)}") from error
    if info["missing_keys"]:
        raise InputError(f"{path} lacks the weights {', '.join(sorted(info['missing_keys']))}; it is incomplete.")
    tokenizer = saved_tokenizer(path, kwargs["trust_remote_code"])
    text = model.config.get_text_config()
    check_tokenizer_fits(tokenizer, text.vocab_size, text.pad_token_id, text)
    model = model.eval()
    model._stored_dtype = stored
    model.training_texts = saved_training_texts(path)
    if speaks_protocol(model):
        return model, tokenizer
    restore_projection(model)
    return wrap(model), tokenizer


def wrap(
    model: Any = None,
    *,
    encode: Callable[..., Any] | None = None,
    without: Callable[..., Any] | None = None,
    sites: Sequence[str] = ("pool",),
    **chosen: Any,
) -> Any:
    """The protocol around a transformers classifier, or around a hand-written torch model.

    Args:
        model: a transformers classifier, and nothing else: its heads can then be read and replaced. The model stays as
            it is.
        chosen: with `model`: ``queries``, ``heads``, ``layers``, which hold in every evaluation; see
            `attn_faithful.models.stock.model.StockModel`. With `encode`: ``labels``, ``multi_label``, ``name``,
            ``version``, ``module``, ``pad_token_id``, ``max_tokens``; see `attn_faithful.models.wrapped.OwnModel`.
        encode: ``encode(batch) -> Encoded`` (with several sites ``encode(batch, site)``); its ``decode`` must give the
            model's logits for the model's own attention, and be differentiable in it.
        without: ``without(batch, keep) -> logits (B, K, C)``, for tests that delete tokens.
        sites: names of its attention sites.

    Returns:
        an object with ``sites``, ``encode`` and ``without`` that every test takes. Evaluations also need ``labels``,
        the names of the classes; gradients with respect to embeddings are not asked of a model of your own.

    Raises:
        InputError: both or neither of `model` and `encode`; a model that cannot be wrapped, by name, with what could.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> bert = BertForSequenceClassification(BertConfig(
        ...     vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
        >>> wrap(bert).sites
        ('layer.0', 'joint')
    """
    if (model is None) == (encode is None):
        raise InputError("wrap takes a transformers classifier, or encode= for a model of your own, and not both.")
    known = _OF_STOCK if encode is None else _OF_OWN
    for name in chosen:
        if name not in known:
            raise InputError(f"wrap: unknown argument {name!r}.{did_you_mean(name, known)}")
    if encode is None:
        from attn_faithful.models.stock.model import StockModel

        return StockModel(model, **chosen)
    from attn_faithful.models.wrapped import OwnModel

    return OwnModel(encode, without, sites, **chosen)


_OF_STOCK = ("queries", "heads", "layers")
_OF_OWN = ("labels", "multi_label", "name", "version", "module", "pad_token_id", "max_tokens")


def _pair(model: Any, tokenizer: Any) -> tuple[Any, Any, str | None]:
    """A model that speaks the protocol, its tokenizer, and the path or Hub id that it was read from.

    Args:
        model: a folder, a Hub id, a pipeline, a transformers classifier, or what :func:`load` and :func:`wrap` give.
        tokenizer: None for that of the folder or pipeline.
    """
    from attn_faithful.models.entry import as_attention_model, is_pipeline, of_pipeline

    origin = None
    if isinstance(model, str | Path):
        origin = str(model)
        model, own = load(model)
        tokenizer = own if tokenizer is None else tokenizer
    elif is_pipeline(model):
        model, own = of_pipeline(model)
        tokenizer = own if tokenizer is None else tokenizer
    model = as_attention_model(model)
    if tokenizer is None:
        raise InputError(
            "Expected the model's tokenizer beside the model; give it, or a folder or Hub id that holds both."
        )
    if not callable(tokenizer) or not hasattr(tokenizer, "get_vocab"):
        raise InputError(
            f"Expected a tokenizer of transformers, but got {type(tokenizer).__name__}; the order is model, tokenizer, "
            "data."
        )
    return model, tokenizer, origin


def evaluate_attention(
    model: Any,
    tokenizer: Any = None,
    data: Any = None,
    tests: Sequence[str] | str | None = None,
    *,
    output: str | Path = "runs/evaluate",
    split: str | None = None,
    settings: Mapping[str, Any] | None = None,
    source_file: str | Path | None = None,
    name: str | None = None,
    chunk_size: int | None = None,
    threads: int | None = None,
    progress: bool = True,
    **columns: Any,
) -> Result:
    """Run faithfulness tests on a model and a data set, as ``attn-faithful evaluate`` does.

    Args:
        model: what :func:`load` or :func:`wrap` gives, a transformers classifier (which is wrapped; what :func:`wrap`
            was told holds), a pipeline, or a folder or Hub id.
        tokenizer: the model's; a pipeline, a folder and a Hub id bring theirs, and data may then stand in its place.
        data: a Hub id, a folder, a file, "mock-1" and so on, a ``datasets.Dataset`` or ``DatasetDict``, streamed or
            not, a column of one, a data frame, a series or an array of texts, a mapping of columns, or a list or
            generator of texts or of rows (mappings with a text and perhaps a label and an id).
        tests: names such as "correlation", "permutation", "adversarial"; None for all that the settings name, or all.
        output: folder of the run folders; a finished one is read and not made again.
        split: None takes "test" where there is one.
        settings: keys of the recipe's part ``evaluation``, such as ``{"controls": [], "seed": 3}`` or
            ``{"settings": {"permutation": {"permutations": 500}}}``.
        source_file: importance computed elsewhere, by example and token; attention is compared with it too.
        name: what tables call the model.
        held: examples whose results are held before they are written.
        threads: that torch computes with; None for one with small models, unless ATTN_FAITHFUL_THREADS,
            OMP_NUM_THREADS or ``torch.set_num_threads`` say otherwise. Afterwards there are as many as before.
        progress: whether work of more than three seconds shows how far it is, in a notebook, a terminal or a log.
        columns: further keys of the recipe's part ``data``, such as ``text_column``, ``label_column``, ``limit``, and
            ``seen``: "leave_out" or "keep" texts that the model was trained on. None leaves them out of a single file,
            and keeps them among given texts and in a named split, with a warning.

    Returns:
        the result, read from its run folder: ``table()``, ``examples``, ``tokens``, ``variants``.

    Raises:
        InputError: what is wrong with the model, the data, a name or a setting; settings that contradict what
            :func:`wrap` was told, or the argument `tests`.

    Example:
        >>> import tempfile
        >>> from attn_faithful.data.encoding import train_tokenizer
        >>> from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
        >>> texts = ["good film", "a bad film", "not good , not bad"]
        >>> tokenizer = train_tokenizer(texts)
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp"))
        >>> result = evaluate_attention(model, tokenizer, texts, ["permutation"], output=tempfile.mkdtemp())
        >>> result.table()["n"].max()
        3
    """
    from attn_faithful.data.training_texts import CAUTION
    from attn_faithful.experiments.evaluation_settings import EvaluationSettings
    from attn_faithful.experiments.recipe import DataSettings
    from attn_faithful.experiments.run_evaluation import evaluate_task, make_task
    from attn_faithful.experiments.strict_yaml import build
    from attn_faithful.experiments.threads import asked_for
    from attn_faithful.models.entry import in_order
    from attn_faithful.reports.progress.progress import QUIET, Counter
    from attn_faithful.reports.result import Result

    tokenizer, data = in_order(model, tokenizer, data)
    given = mapping("settings", settings)
    named_tests, set_tests = names("tests", tests), names("tests", given.get("tests"))
    if named_tests and set_tests and named_tests != set_tests:
        raise InputError(f"tests are {named_tests}, but the settings ask for {set_tests}; leave one of the two out.")
    asked = build(EvaluationSettings, {**given, "tests": named_tests or set_tests or []}, "settings")
    model, tokenizer, origin = _pair(model, tokenizer)
    named = isinstance(data, str | Path)
    where = build(DataSettings, {"source": str(data) if named else "data", **columns}, "evaluate_attention")
    try:
        task = make_task(
            model,
            tokenizer,
            where,
            asked,
            split,
            rows=None if named else data,
            name=name,
            source_file=None if source_file is None else str(source_file),
            origin=origin,
        )
    except MissingSourceError as error:
        if not isinstance(data, str) or "/" in data.strip("/"):
            raise
        raise MissingSourceError(f"{error} If it is a text, put it into a list, [text], or call explain.") from None
    for note in task.texts.notes:
        if note.startswith(CAUTION):
            warnings.warn(note, TrainedOnWarning, stacklevel=2)
    title = f"{task.name} on {task.texts.name}"
    with asked_for(threads), Counter(title, shown=progress, quiet=QUIET) as counter:
        return Result(evaluate_task(task, output, chunk_size=chunk_size, on_progress=counter.update).path)


def explain(
    model: Any,
    tokenizer: Any = None,
    data: Any = None,
    *,
    sources: Sequence[str] | str | None = None,
    tests: Sequence[str] | str | None = None,
    output: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: bool = True,
    **columns: Any,
) -> Explanation:
    """The heat maps of some texts: attention, one that serves as well, importance, the smallest set that decides.

    Args:
        model, tokenizer: as for :func:`evaluate_attention`.
        data: one text, or what :func:`evaluate_attention` takes (a file or a Hub id as a ``Path``: a string is a text).
        sources: of importance, such as "saliency", "integrated_gradients"; None for those that the settings name, or
            "input_x_gradient" and "leave_one_out" (of a model of your own those that it gives).
        tests: what to ask of each text; None for those that the settings name, or "correlation", "permutation",
            "adversarial" and "flips".
        output: folder for the run folder; None for one that goes with the result.
        settings, threads, progress: see :func:`evaluate_attention`.
        columns: further keys of the recipe's part ``data``.

    Returns:
        what shows itself in a notebook, and with ``rich.print`` in a terminal; ``save(path)`` writes its page.

    Raises:
        InputError: an empty text, or what is wrong with the data, a name or a setting.

    Example:
        >>> from attn_faithful.data.encoding import train_tokenizer
        >>> from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
        >>> tokenizer = train_tokenizer(["good film", "a bad film"])
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp"))
        >>> found = explain(model, tokenizer, "good , not bad")
        >>> len(found), found[0].words, [line.kind.key for line in found[0].lines][:2]
        (1, ['good', ',', 'not', 'bad'], ['attention', 'adversarial'])
    """
    from tempfile import TemporaryDirectory

    from attn_faithful.models.entry import explained_sources, in_order
    from attn_faithful.reports.explanation import Explanation

    tokenizer, data = in_order(model, tokenizer, data)
    if isinstance(data, str):
        data = [data]
    if isinstance(data, list | tuple) and data and all(isinstance(one, str) and not one.strip() for one in data):
        raise InputError("Expected a text to explain, but it is empty.")
    if not isinstance(data, Path):
        columns.setdefault("source", "texts")
    model, tokenizer, _ = _pair(model, tokenizer)
    given = mapping("settings", settings)
    asked = mapping("settings of tests", given.pop("settings", None))
    own = {test: mapping(f"settings of {test}", keys) for test, keys in asked.items()}
    tests = names("tests", tests) or names("tests", given.pop("tests", None)) or list(_EXPLAINING)
    named = names("sources", sources) or own.get("correlation", {}).get("against")
    chosen = explained_sources(model) if named is None else list(names("sources", named) or [])
    defaults = {
        "correlation": {"against": chosen},
        "flips": {"rankings": ["attention"], "random": 0, "single": []},
    }
    for test in defaults:
        if test in tests:
            own[test] = {**defaults[test], **own.get(test, {})}
    asked = {"controls": [], **given, "settings": own}
    asked["also"] = list(dict.fromkeys([*(names("also", given.get("also")) or []), *chosen]))
    holder = TemporaryDirectory(prefix="attn-faithful-") if output is None else None
    folder = output if holder is None else holder.name
    columns |= {"threads": threads, "progress": progress}
    result = evaluate_attention(model, tokenizer, data, tests, output=folder, settings=asked, **columns)
    return Explanation(result.path, holder)


_EXPLAINING = ("correlation", "permutation", "adversarial", "flips")


def run_recipe(
    recipe: str | Path | Mapping[str, Any],
    output: str | Path = "runs",
    *,
    overrides: Mapping[str, Any] | None = None,
    smoke: bool = False,
    data_dir: str | Path | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> list[dict[str, Any]]:
    """Carry out a recipe, as ``attn-faithful run`` does, and return its records.

    Args:
        recipe: a YAML file, or its keys as a mapping.
        output: folder of the run folders; finished cells are not run again.
        overrides: dotted key -> value, such as ``{"twin.epochs": 20}``.
        smoke: apply the recipe's smoke overrides.
        data_dir: where local copies of the data sets lie.
        threads, progress: see :func:`evaluate_attention`.

    Returns:
        one record a group of cells that differ in nothing but the seed; see `attn_faithful.reports.aggregate`.
    """
    from attn_faithful.experiments.recipe import load_recipe, make_recipe
    from attn_faithful.experiments.threads import asked_for
    from attn_faithful.reports.progress.progress import QUIET

    if isinstance(recipe, Mapping):
        found = make_recipe(recipe, "recipe", overrides, smoke)
    else:
        found = load_recipe(recipe, overrides, smoke)
    with asked_for(threads):
        return carry_out(found, output, data_dir, progress=progress, quiet=QUIET)[0]


def carry_out(
    recipe: Any,
    output: str | Path,
    data_dir: str | Path | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    world: int | None = None,
    parallel: str = "cells",
    progress: bool = True,
    quiet: float = 0.0,
) -> tuple[list[dict[str, Any]], bool]:
    """Run the cells of a recipe that was read already, and leave in them what the paper expects.

    Args:
        recipe: see `experiments.recipe.load_recipe`.
        output, data_dir: as for :func:`run_recipe`.
        only: axis -> labels of the cells to run; None for all.
        world: how many processes there should be; None for whatever was started.
        parallel: what several share, "cells" or "data".
        progress: whether it is shown.
        quiet: seconds in which it is not.

    Returns:
        the records of :func:`run_recipe`, and whether this is the process that shows them.
    """
    from dataclasses import asdict

    from attn_faithful.experiments.grid import expand
    from attn_faithful.experiments.run_recipe import cost, mine, process_group, run_cells
    from attn_faithful.reports.aggregate import aggregate
    from attn_faithful.reports.progress.progress import Progress
    from attn_faithful.reports.run import write_recipe

    with process_group(world, parallel) as processes:
        cells = expand(recipe, data_dir, only)
        own = mine(cells, processes)
        with Progress(own, processes.rank, processes.world, cost, shown=progress, quiet=quiet) as told:
            folders = run_cells(cells, Path(output), told.update, processes, told.skip, told.finish)
        if processes.main:
            for folder in folders:
                write_recipe(folder, asdict(recipe))
        return aggregate(folders), processes.main
