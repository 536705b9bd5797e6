"""What a notebook uses beside loading: test a model, explain a text, run a recipe."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from attn_faithful._checks import InputError, MissingSourceError, add_note, mapping, names, notes_of
from attn_faithful.experiments.spellings import Spelling, names_and_settings, warn_of_old
from attn_faithful.loading import model_and_tokenizer
from attn_faithful.schema import MARKS

if TYPE_CHECKING:
    from attn_faithful.explanations.base import Explanations
    from attn_faithful.reports.explanation import Explanation
    from attn_faithful.reports.groups import Group
    from attn_faithful.reports.recipe_result import RecipeResult
    from attn_faithful.reports.result import Result

Tests = Mapping[str, Mapping[str, Any]] | Sequence[str] | str | None

_EXPLAINING = ("correlation", "permutation", "adversarial", "flips")
_FLIPS_OF_EXPLANATIONS = {"rankings": ["attention"], "random": 0, "single": []}


class TrainedOnWarning(UserWarning):
    """Texts are tested that the model was trained on."""


def evaluate_attention(  # noqa: PLR0913 -- what a notebook may say, by keyword
    model: Any,
    tokenizer: Any = None,
    data: Any = None,
    tests: Tests = None,
    *,
    output: str | Path = "runs/evaluate",
    split: str | None = None,
    settings: Mapping[str, Any] | None = None,
    source_file: str | Path | Explanations | None = None,
    fit_data: Any = None,
    fit_texts: int | None = None,
    name: str | None = None,
    chunk_size: int | None = None,
    threads: int | None = None,
    device: str = "auto",
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
        tests: names such as "correlation", "permutation", "adversarial", or a mapping of each test to its settings,
            such as ``{"permutation": {"permutations": 500}, "flips": {}}``; None for those that the settings name, or
            all.
        output: folder of the run folders; a finished one is read and not made again.
        split: None takes "test" where there is one.
        settings: keys of the recipe's part ``evaluation``, such as ``{"controls": [], "seed": 3}``; its key
            ``test_settings`` holds settings of tests, whichever are run.
        source_file: importance of another tool: a file, or what `attn_faithful.explanations` gives (kept in `output`).
        fit_data: texts that the weights of the source "learned_heads" are fitted on, as `data` takes them; None for the
            training split of `data`.
        fit_texts: on how many of them, at most; None for 300.
        name: what tables call the model.
        chunk_size: examples whose results are held before they are written.
        threads: that torch computes with; None for one with small models, unless ATTN_FAITHFUL_THREADS,
            OMP_NUM_THREADS or ``torch.set_num_threads`` say otherwise. Afterwards there are as many as before.
        device: where the model computes: "cpu", "cuda", "cuda:1", or "auto", which leaves a model where it is, and
            reads one of a folder or the Hub onto CUDA where it is. Afterwards a model is where it was.
        progress: whether work of more than three seconds shows how far it is, in a notebook, a terminal or a log.
        columns: further keys of the recipe's part ``data``, such as ``text_column``, ``label_column``, ``limit``, and
            ``seen``: "leave_out" or "keep" texts that the model was trained on. None leaves them out of a single file,
            and keeps them among given texts and in a named split, with a warning.

    Returns:
        the result, read from its run folder: ``table()``, ``examples``, ``tokens``, ``variants``.

    Raises:
        InputError: what is wrong with the model, the data, the device, a name or a setting; settings that contradict
            what :func:`wrap` was told, or the argument `tests`.

    Example:
        >>> import tempfile
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
        >>> texts = ["good film", "a bad film", "not good , not bad"]
        >>> tokenizer = train_tokenizer(texts)
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp"))
        >>> result = evaluate_attention(model, tokenizer, texts, ["permutation"], output=tempfile.mkdtemp())
        >>> int(result.table()["n"].max())
        3
    """
    from attn_faithful.data.training_texts import CAUTION
    from attn_faithful.experiments.evaluation_task import make_task
    from attn_faithful.experiments.inputs import ModelInput
    from attn_faithful.experiments.run_evaluation import evaluate_task
    from attn_faithful.experiments.threads import asked_for
    from attn_faithful.explanations.base import kept_file
    from attn_faithful.models.devices import on_device
    from attn_faithful.models.entry import in_order
    from attn_faithful.reports.progress.progress import QUIET, Counter
    from attn_faithful.reports.result import Result

    if "held" in columns:
        warn_of_old("evaluate_attention", "held", "chunk_size")
        chunk_size = columns.pop("held")
    tokenizer, data = in_order(model, tokenizer, data)
    evaluation = _evaluation(tests, settings)
    model, tokenizer, origin = model_and_tokenizer(model, tokenizer, device)
    data_input = replace(
        _data_input(data, columns),
        split=split,
        source_file=kept_file(source_file, Path(output) / "explanations"),
        fit=None if fit_data is None else _data_input(fit_data, _without(columns, "source", "limit", *MARKS)),
        fit_texts=fit_texts,
    )
    try:
        task = make_task(ModelInput(model, tokenizer, name, origin), data_input, evaluation)
    except MissingSourceError as error:
        if not isinstance(data, str) or "/" in data.strip("/"):
            raise
        raise MissingSourceError(f"{error} If it is a text, put it into a list, [text], or call explain.") from None
    for note in task.texts.notes:
        if note.startswith(CAUTION):
            warnings.warn(note, TrainedOnWarning, stacklevel=2)
    title = f"{task.name} on {task.texts.name}"
    shown = Counter(title, shown=progress, quiet=QUIET)
    with on_device(task.model, device), asked_for(threads), shown as counter:
        folder = evaluate_task(task, output, chunk_size=chunk_size, on_progress=counter.update)
    return Result(folder.path)


def _data_input(data: Any, columns: Mapping[str, Any]) -> Any:
    """Texts as `evaluate_attention` takes them, with what the caller says of their columns."""
    from attn_faithful.data.settings import DataSettings
    from attn_faithful.experiments.inputs import DataInput
    from attn_faithful.experiments.strict_settings import build

    is_named = isinstance(data, str | Path)
    source = str(data) if is_named else "data"
    settings = build(DataSettings, {"source": source, **columns}, "evaluate_attention")
    return DataInput(settings, rows=None if is_named else data)


def _without(columns: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in columns.items() if name not in names}


def _evaluation(tests: Tests, settings: Mapping[str, Any] | None) -> Any:
    """The evaluation that the arguments `tests` and `settings` ask for together."""
    from attn_faithful.experiments.evaluation_settings import EvaluationSettings
    from attn_faithful.experiments.strict_settings import build

    keys = _present(settings)
    named, test_settings = _tests_of(tests, keys)
    named_in_settings = names("tests", keys.get("tests"))
    if named and named_in_settings and named != named_in_settings:
        raise InputError(f"tests are {named}, but the settings ask for {named_in_settings}; leave one of the two out.")
    keys |= {"tests": named or named_in_settings or [], "test_settings": test_settings}
    return build(EvaluationSettings, keys, "settings")


def _present(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Keys of the part ``evaluation`` by their present names."""
    spelling = Spelling("settings")
    keys = spelling.evaluation(mapping("settings", settings))
    spelling.warn()
    return keys


def _tests_of(tests: Tests, keys: Mapping[str, Any]) -> tuple[list[str] | None, dict[str, Any]]:
    """The names of tests, and the settings that they and the keys of an evaluation give them."""
    test_settings = mapping("settings of tests", keys.get("test_settings"))
    if isinstance(tests, Mapping):
        tests, own_settings = names_and_settings(tests)
        test_settings |= own_settings
    return names("tests", tests), test_settings


def explain(  # noqa: PLR0913 -- what a notebook may say, by keyword
    model: Any,
    tokenizer: Any = None,
    data: Any = None,
    *,
    sources: Sequence[str] | str | None = None,
    tests: Tests = None,
    output: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    fit_data: Any = None,
    fit_texts: int | None = None,
    threads: int | None = None,
    device: str = "auto",
    progress: bool = True,
    **columns: Any,
) -> Explanation:
    """The heat maps of some texts: attention, one that serves as well, importance, the smallest set that decides.

    Args:
        model, tokenizer: as for :func:`evaluate_attention`.
        data: one text, or what :func:`evaluate_attention` takes (a file or a Hub id as a ``Path``: a string is a text).
        sources: of importance, such as "saliency", "integrated_gradients"; None for those that the settings name, or
            "input_x_gradient" and "leave_one_out" (of a model of your own those that it gives).
        tests: names, or a mapping of each test to its settings; None for those that the settings name, or
            "correlation", "permutation", "adversarial" and "flips".
        output: folder for the run folder; None for one that goes with the result.
        settings, fit_data, fit_texts, threads, device, progress: see :func:`evaluate_attention`.
        columns: further keys of the recipe's part ``data``.

    Returns:
        what shows itself in a notebook, and with ``rich.print`` in a terminal; ``save(path)`` writes its page.

    Raises:
        InputError: an empty text, or what is wrong with the data, a name or a setting.

    Example:
        >>> from attn_faithful.data.tokenizer import train_tokenizer
        >>> from attn_faithful.models.pooled import AttentionClassifier, AttentionClassifierConfig
        >>> tokenizer = train_tokenizer(["good film", "a bad film"])
        >>> model = AttentionClassifier(AttentionClassifierConfig(vocab_size=len(tokenizer), encoder="mlp"))
        >>> found = explain(model, tokenizer, "good , not bad")
        >>> len(found), found[0].words, [line.kind.key for line in found[0].lines][:2]
        (1, ['good', ',', 'not', 'bad'], ['attention', 'adversarial'])
    """
    from attn_faithful.models.entry import in_order
    from attn_faithful.reports.explanation import Explanation

    tokenizer, data = in_order(model, tokenizer, data)
    if isinstance(data, str):
        data = [data]
    if isinstance(data, list | tuple) and data and all(map(_is_blank, data)):
        raise InputError("Expected a text to explain, but it is empty.")
    if not isinstance(data, Path):
        columns.setdefault("source", "texts")
    model, tokenizer, _ = model_and_tokenizer(model, tokenizer, device)
    tests, keys = _explaining(model, sources, tests, settings)
    holder = None
    if output is None:
        holder = TemporaryDirectory(prefix="attn-faithful-")
        output = holder.name
    result = evaluate_attention(
        model,
        tokenizer,
        data,
        tests,
        output=output,
        settings=keys,
        fit_data=fit_data,
        fit_texts=fit_texts,
        threads=threads,
        device=device,
        progress=progress,
        **columns,
    )
    return Explanation(result, holder)


def _is_blank(text: Any) -> bool:
    return isinstance(text, str) and not text.strip()


def _explaining(
    model: Any, sources: Sequence[str] | str | None, tests: Tests, settings: Mapping[str, Any] | None
) -> tuple[list[str], dict[str, Any]]:
    """The tests of an explanation, and the keys of its evaluation."""
    from attn_faithful.models.entry import explained_sources

    keys = _present(settings)
    named, given_settings = _tests_of(tests, keys)
    test_settings = {test: mapping(f"settings of {test}", given) for test, given in given_settings.items()}
    named = named or names("tests", keys.pop("tests", None)) or list(_EXPLAINING)
    shown = names("sources", sources) or test_settings.get("correlation", {}).get("against")
    if shown is None:
        shown = explained_sources(model)
    shown = names("sources", shown) or []
    defaults: dict[str, dict[str, Any]] = {"correlation": {"against": shown}, "flips": _FLIPS_OF_EXPLANATIONS}
    for test, default in defaults.items():
        if test in named:
            test_settings[test] = {**default, **test_settings.get(test, {})}
    extra_sources = names("extra_sources", keys.get("extra_sources")) or []
    all_sources = list(dict.fromkeys([*extra_sources, *shown]))
    keys = {"controls": [], **keys, "test_settings": test_settings, "extra_sources": all_sources}
    return named, keys


def run_recipe(
    recipe: str | Path | Mapping[str, Any],
    output: str | Path = "runs",
    *,
    overrides: Mapping[str, Any] | None = None,
    smoke: bool = False,
    data_dir: str | Path | None = None,
    threads: int | None = None,
    progress: bool = True,
) -> RecipeResult:
    """Carry out a recipe, as ``attn-faithful run`` does, and return its records.

    Args:
        recipe: a YAML file, or its keys as a mapping.
        output: folder of the run folders; finished cells are not run again.
        overrides: dotted key -> value, such as ``{"twin.epochs": 20}``.
        smoke: apply the recipe's smoke overrides.
        data_dir: where local copies of the data sets lie.
        threads, progress: see :func:`evaluate_attention`.

    Returns:
        a list with one record a group of cells that differ in nothing but the seed; see
        `attn_faithful.reports.groups.Group`, and of its key ``roar``, empty where the recipe has none,
        `attn_faithful.reports.roar.roar_records`. A notebook shows its answers and tables; ``results``, ``figures``
        and ``tables()`` are the rest, see `attn_faithful.reports.recipe_result.RecipeResult`.
    """
    from attn_faithful.experiments.recipe import load_recipe, make_recipe
    from attn_faithful.experiments.threads import asked_for
    from attn_faithful.reports.progress.progress import QUIET
    from attn_faithful.reports.recipe_result import RecipeResult

    if isinstance(recipe, Mapping):
        checked = make_recipe(recipe, "recipe", overrides, smoke)
    else:
        checked = load_recipe(recipe, overrides, smoke)
    try:
        with asked_for(threads):
            groups, _ = carry_out(checked, output, data_dir, progress=progress, quiet=QUIET)
    except KeyboardInterrupt as error:
        if not notes_of(error):
            add_note(error, "Finished cells and whole epochs are kept; the same call goes on from there.")
        raise
    return RecipeResult(groups, checked.on_disk())


def carry_out(  # noqa: PLR0913 -- what a command may say
    recipe: Any,
    output: str | Path,
    data_dir: str | Path | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
    world: int | None = None,
    parallel: str = "cells",
    progress: bool = True,
    quiet: float = 0.0,
    device: str = "auto",
    kept: str | None = None,
) -> tuple[list[Group], bool]:
    """Run the cells of a recipe that was read already, and leave in them what the paper expects.

    Args:
        recipe: see `experiments.recipe.load_recipe`.
        output, data_dir: as for :func:`run_recipe`.
        only: axis -> labels of the cells to run; None for all.
        world: how many processes there should be; None for whatever was started.
        parallel: what several share, "cells" or "data".
        progress: whether it is shown.
        quiet: seconds in which it is not.
        device: where models are trained: "auto" (CUDA where it is), "cpu" or "cuda".
        kept: of a command, what it says of long work, see `reports.progress.progress.Advice`.

    Returns:
        a group of runs over seeds for each record of :func:`run_recipe`, and whether this is the process that shows
        them.
    """
    from attn_faithful.experiments.grid import expand
    from attn_faithful.experiments.launcher import process_group
    from attn_faithful.experiments.run_recipe import cost, mine, run_cells
    from attn_faithful.reports.aggregate import aggregate
    from attn_faithful.reports.paper_numbers import write_recipe
    from attn_faithful.reports.progress.progress import Progress
    from attn_faithful.reports.run import Run

    with process_group(world, parallel) as processes:
        cells = expand(recipe, data_dir, only)
        own_cells = mine(cells, processes, cost)
        show = partial(Progress, rank=processes.rank, world=processes.world, shown=progress, quiet=quiet, kept=kept)
        with show(own_cells, cost=cost) as shown:
            folders = run_cells(cells, Path(output), shown.update, processes, shown.skip, shown.finish, device)
        _run_roar(cells, Path(output), processes, device, show)
        if processes.main:
            for folder in folders:
                write_recipe(folder, recipe.on_disk())
        groups = aggregate([Run(folder.path) for folder in folders])
        return groups, processes.main


def _run_roar(cells: Sequence[Any], output: Path, processes: Any, device: str, show: Callable[..., Any]) -> None:
    """Carry out ROAR of the cells that are done, where their recipe asks for it; ``show`` makes its progress."""
    from attn_faithful.experiments.roar.run_roar import all_curves, cost_of_curve, own_curves, run_curves

    curves = all_curves(cells, output)
    if not curves:
        return
    own = own_curves(curves, processes)
    with show(own, cost=cost_of_curve) as shown:
        run_curves(curves, shown.update, processes, shown.finish, device)
