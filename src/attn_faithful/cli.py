"""The command line: ``run``, ``train``, ``attefa``, ``evaluate``, ``ls``, ``check``, ``install-metrics``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attn_faithful._checks import InputError

# The heavy imports stand inside the commands: --help must answer at once.


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 for bad input, 130 when interrupted."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        return int(given.command(given) or 0)
    except (InputError, OSError) as error:
        if given.debug:
            raise
        print(f"attn-faithful: {_sentence(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nattn-faithful: stopped; the same command goes on from the last whole epoch.", file=sys.stderr)
        return 130


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f" {error.filename}" if error.filename else ""
        kept = "What was finished is kept; free the disk or choose --output."
        return f"cannot write or read{where}: {error.strerror}. {kept}"
    return " ".join(str(error).split())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="attn-faithful",
        description="May this model's attention be shown as an explanation of its predictions?",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="carry out a recipe and print its tables")
    run.add_argument("recipe", help="a YAML file")
    run.set_defaults(command=_run)
    _shared(run)
    _cells(run)

    train = commands.add_parser("train", help="train attention classifiers, without twins")
    train.set_defaults(command=_train)
    _shared(train)
    _single(train)

    attefa = commands.add_parser("attefa", help="train a classifier and its adversarial twins, report AtteFa")
    attefa.set_defaults(command=_attefa)
    _shared(attefa)
    _single(attefa)
    attefa.add_argument("--twin-seeds", metavar="N,N", help="twins of each base (default: one)")
    attefa.add_argument("--twin-epochs", type=int, metavar="N", help="at most this many (default: 80)")
    attefa.add_argument(
        "--max-tvd", type=float, metavar="X", help="also a constrained twin: the largest JSD at this mean TVD"
    )
    attefa.add_argument(
        "--weights", metavar="X,X", help="also twins at these weights of JSD: the curve of TVD against JSD"
    )
    attefa.add_argument("--controls", metavar="NAME,NAME", help="uniform, imposed")

    evaluate = commands.add_parser("evaluate", help="run the tests on a trained model and a data set")
    evaluate.add_argument("model", help="a folder or a Hub id")
    evaluate.set_defaults(command=_evaluate)
    evaluate.add_argument("--data", required=True, help="a Hub id, a folder, a file, or mock-1 and so on")
    _columns(evaluate)
    evaluate.add_argument("--split", help="train, validation or test (default: test)")
    evaluate.add_argument("--tests", metavar="NAME,NAME", help="correlation, permutation, adversarial (default: all)")
    evaluate.add_argument("--layers", help="of a transformers model: last (default), all, joint, or numbers: 0,5")
    evaluate.add_argument("--queries", help="of a transformers model: auto (default), token, mean, all")
    evaluate.add_argument("--units", help="word (default) or token: what items are")
    evaluate.add_argument("--target", help="importance for which class: predicted (default), gold or a class's name")
    evaluate.add_argument("--controls", metavar="NAME,NAME", help="uniform, random (default: both)")
    evaluate.add_argument("--source-file", metavar="FILE", help="importance computed elsewhere, by example and token")
    evaluate.add_argument("--name", default="evaluate", help="folder below --output (default: evaluate)")
    _everywhere(evaluate)

    ls = commands.add_parser("ls", help="list finished runs")
    ls.set_defaults(command=_ls)
    ls.add_argument("folder", nargs="*", default=["runs"], help="folders of runs (default: runs)")

    check = commands.add_parser("check", help="tell what is wrong with a recipe or a data set, before any work")
    check.set_defaults(command=_check)
    check.add_argument("what", help="a recipe (.yaml), or a data set: a Hub id, folder, file, mock-1 ...")
    _shared(check)
    _cells(check)
    _columns(check)

    install = commands.add_parser(
        "install-metrics", help='make evaluate.load("attefa") work from any folder, offline too'
    )
    install.set_defaults(command=_install_metrics)
    install.add_argument("metric", nargs="*", help="names (default: all)")
    return parser


def _everywhere(parser: argparse.ArgumentParser) -> Any:
    """The flags that every command with texts shares."""
    group = parser.add_argument_group("shared by the commands")
    group.add_argument("--output", default="runs", metavar="DIR", help="folder of the run folders (default: runs)")
    group.add_argument(
        "--batch-size", type=int, metavar="N", help="texts a training step; in evaluate: whose results are held at once"
    )
    group.add_argument("--limit", type=int, metavar="N", help="at most this many texts of each split")
    group.add_argument("--smoke", action="store_true", help="a run of seconds that shows that everything works")
    group.add_argument("--seeds", metavar="N,N", help="one base model each; in evaluate: of all random choices")
    group.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any key of the recipe, such as twin.epochs=20"
    )
    group.add_argument("--processes", type=int, metavar="N", help="fail unless the launcher started this many")
    return group


def _shared(parser: argparse.ArgumentParser) -> None:
    group = _everywhere(parser)
    group.add_argument("--vectors", metavar="FILE", help="word vectors: GloVe, word2vec or fastText text, .gz too")
    group.add_argument(
        "--parallel", default="cells", help="what several processes share: cells (default) or data, one model at a time"
    )


def _cells(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", action="append", default=[], metavar="AXIS=LABEL[,LABEL]", help="only these cells of the grid"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="where local copies of the recipe's data sets lie")


def _single(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("data and model")
    group.add_argument("--data", required=True, help="a Hub id, a folder, a file, or mock-1 and so on")
    _columns(group)
    group.add_argument(
        "--encoder", default="lstm", help="lstm, gru, mlp, average, cnn, transformer, none (several: a,b)"
    )
    group.add_argument("--attention", help="additive, dot, uniform")
    group.add_argument("--projection", help="softmax, sparsemax, sparsegen, entmax15, entmax")
    group.add_argument("--epochs", type=int, metavar="N", help="of the base (default: 8)")
    group.add_argument("--learning-rate", type=float, metavar="X", help="of base and twin (default: 0.001)")
    group.add_argument("--name", help="folder below --output (default: the command's name)")


def _columns(parser: Any) -> None:
    parser.add_argument("--text-column", help="the texts; of pairs, the one that is attended to")
    parser.add_argument("--query-column", help="of pairs: the question or hypothesis that asks the attention")
    parser.add_argument("--label-column")
    parser.add_argument("--keep", metavar="LABEL,LABEL", help="only these labels")
    parser.add_argument("--drop", metavar="LABEL,LABEL", help="all but these labels")
    parser.add_argument("--map", metavar="LABEL=NAME,LABEL=NAME", help="rename or merge labels")


def _overrides(given: argparse.Namespace) -> dict[str, Any]:
    """What the flags of a command that trains say, as dotted keys of a recipe."""
    training = {f"{part}.batch_size": given.batch_size for part in ("train", "twin")}
    training |= {"seeds": _numbers("--seeds", given.seeds, int), "vectors.path": given.vectors}
    return {key: value for key, value in training.items() if value is not None} | _data_overrides(given)


def _data_overrides(given: argparse.Namespace) -> dict[str, Any]:
    """What the flags say of the data, and then ``--set``, as dotted keys of a recipe."""
    from attn_faithful.experiments.strict import read_value

    found: dict[str, Any] = {}

    def put(key: str, value: Any) -> None:
        if value is not None:
            found[key] = value

    put("data.limit", given.limit)
    for name in ("text_column", "query_column", "label_column"):
        put(f"data.{name}", getattr(given, name, None))
    for name in ("keep", "drop"):
        put(f"data.{name}", _names(getattr(given, name, None)))
    if getattr(given, "map", None):
        found["data.label_map"] = dict(_pair("--map", part) for part in given.map.split(","))
    for text in given.set:
        key, value = _pair("--set", text)
        found[key] = read_value(value, f"--set {key}")
    return found


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _numbers(flag: str, text: str | None, kind: type) -> list[Any] | None:
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{flag} expects numbers with commas between, such as 10,50, but got {text!r}.") from None


def _pair(flag: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise InputError(f"{flag} expects NAME=VALUE, but got {text!r}.")
    return key.strip(), value.strip()


def _run(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.recipe import load_recipe

    _carry_out(load_recipe(given.recipe, _overrides(given), given.smoke), given)


def _train(given: argparse.Namespace) -> None:
    _carry_out(_single_recipe(given, twin=False), given)


def _attefa(given: argparse.Namespace) -> None:
    _carry_out(_single_recipe(given, twin=True), given)


def _single_recipe(given: argparse.Namespace, twin: bool) -> Any:
    from attn_faithful.experiments.recipe import make_recipe

    encoders = _names(given.encoder) or ["lstm"]
    model = {name: getattr(given, name) for name in ("attention", "projection") if getattr(given, name) is not None}
    raw: dict[str, Any] = {
        "name": given.name or ("attefa" if twin else "train"),
        "data": {"source": given.data},
        "model": model,
        "grid": {"model.encoder": encoders},
        "smoke": {"train.epochs": 1, "twin.epochs": 1, "data.limit": 200}
        if twin
        else {"train.epochs": 1, "data.limit": 200},
    }
    if given.epochs is not None:
        raw.setdefault("train", {})["epochs"] = given.epochs
    if given.learning_rate is not None:
        raw.setdefault("train", {})["learning_rate"] = given.learning_rate
    overrides = _overrides(given)
    if not twin:
        raw["twin"] = None
        overrides = {key: value for key, value in overrides.items() if not key.startswith("twin.")}
        return make_recipe(raw, "train", overrides, given.smoke)
    settings = {"epochs": given.twin_epochs, "learning_rate": given.learning_rate}
    raw["twin"] = {key: value for key, value in settings.items() if value is not None}
    raw["twin_seeds"] = _numbers("--twin-seeds", given.twin_seeds, int)
    weights = _numbers("--weights", given.weights, float) or []
    raw["variants"] = [{"weight": weight} for weight in weights if weight != 1]
    if given.max_tvd is not None:
        raw["variants"].append({"objective": "constrained", "max_tvd": given.max_tvd})
    raw["controls"] = _names(given.controls) or []
    return make_recipe(raw, "attefa", overrides, given.smoke)


def _only(texts: Sequence[str]) -> dict[str, list[str]]:
    return {axis: labels.split(",") for axis, labels in (_pair("--only", text) for text in texts)}


def _carry_out(recipe: Any, given: argparse.Namespace) -> None:
    from dataclasses import asdict
    from pathlib import Path

    from attn_faithful.experiments.aggregate import aggregate
    from attn_faithful.experiments.launch import processes, run_cells
    from attn_faithful.experiments.plan import expand
    from attn_faithful.experiments.trends import trends
    from attn_faithful.reports.progress import Progress
    from attn_faithful.reports.recipes import recipe_tables

    with processes(given.processes, given.parallel) as team:
        cells = expand(recipe, getattr(given, "data_dir", None), _only(getattr(given, "only", [])))
        with Progress(cells, team.rank, team.world) as progress:
            folders = run_cells(cells, Path(given.output), progress.tell, team)
        if team.main:
            records = aggregate(folders)
            _show(recipe_tables(records, trends(records), asdict(recipe)))
            print(f"Run folders: {Path(given.output) / recipe.name}")


def _show(tables: Sequence[Any]) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = 160  # a file or a pipe has no width of its own
    for table in tables:
        if table is not None:
            console.print(table.rich())


def _evaluate(given: argparse.Namespace) -> None:
    from pathlib import Path

    from attn_faithful.api import load
    from attn_faithful.experiments.evaluate import evaluate_task, make_task
    from attn_faithful.experiments.launch import processes
    from attn_faithful.experiments.stages import quiet
    from attn_faithful.reports.progress import Counter
    from attn_faithful.reports.result import Result

    data, settings = _evaluation(given)
    with processes(given.processes, "data") as team:
        with quiet():
            model, tokenizer = load(given.model)
        for seed in _numbers("--seeds", given.seeds, int) or [settings.seed]:
            task = make_task(
                model, tokenizer, data, replace(settings, seed=seed), given.split, source_file=given.source_file,
                origin=given.model,
            )  # fmt: skip
            with Counter(f"{task.name} on {task.texts.name}", team.rank, team.world) as counter:
                folder = evaluate_task(
                    task, Path(given.output) / given.name, held=given.batch_size, team=team, tell=counter.tell
                )
            if team.main:
                result = Result(folder.path)
                for line in result.first_lines():
                    print(line)
                _show(result.tables())
                print(f"Run folder: {folder.path}")


def _evaluation(given: argparse.Namespace) -> tuple[Any, Any]:
    """The data and the tests that the flags of ``evaluate`` ask for."""
    from attn_faithful.experiments.recipe import make_recipe

    overrides = _data_overrides(given)
    for key in overrides:
        if not key.startswith(("data.", "evaluation.")):
            raise InputError(f"--set {key}: evaluate takes keys of data and evaluation only.")
    names = {"tests": given.tests, "controls": given.controls}
    overrides |= {f"evaluation.{key}": _names(text) for key, text in names.items() if text is not None}
    single = {"target": given.target, "queries": given.queries, "units": given.units}
    overrides |= {f"evaluation.{key}": value for key, value in single.items() if value is not None}
    if given.layers not in (None, "last"):
        numbers = [f"layer.{part}" if part.isdigit() else part for part in _names(given.layers) or []]
        overrides["evaluation.sites"] = numbers
    if given.smoke:
        overrides.setdefault("data.limit", 64)
    recipe = make_recipe({"name": "evaluate", "data": {"source": given.data}}, "evaluate", overrides)
    return recipe.data, recipe.evaluation


def _ls(given: argparse.Namespace) -> None:
    from attn_faithful.reports.tables import runs_table
    from attn_faithful.store import find_runs

    _show([runs_table(find_runs(given.folder))])


def _check(given: argparse.Namespace) -> None:
    from attn_faithful.experiments.estimate import estimate
    from attn_faithful.experiments.plan import expand
    from attn_faithful.experiments.prepare import statistics
    from attn_faithful.experiments.recipe import load_recipe, make_recipe
    from attn_faithful.reports.tables import data_table, plan_table

    overrides = _overrides(given)
    is_recipe = given.what.endswith((".yaml", ".yml"))
    if is_recipe:
        recipe = load_recipe(given.what, overrides, given.smoke)
    else:
        recipe = make_recipe({"name": "check", "data": {"source": given.what}}, "check", overrides)
    cells = expand(recipe, given.data_dir, _only(given.only))
    estimates, prepared = estimate(cells)
    facts = [{"axes": {"data": data.texts.name}, "data": statistics(data)} for data in prepared]
    plan = [(cell.title, cell.folder, e.minutes, e.megabytes) for cell, e in zip(cells, estimates, strict=True)]
    _show([data_table(facts), plan_table(recipe.name, plan) if is_recipe else None])
    print("No fault found.")


def _install_metrics(given: argparse.Namespace) -> None:
    from attn_faithful.hub import install_metrics

    for path in install_metrics(given.metric or None):
        print(path)


if __name__ == "__main__":
    sys.exit(main())
