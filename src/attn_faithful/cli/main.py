"""The commands and their flags."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import attn_faithful.cli.early as early
from attn_faithful._checks import InputError, SeveralFaultsError, is_of_memory, notes_of
from attn_faithful.cli.evaluating import evaluate, explain
from attn_faithful.cli.loading import load
from attn_faithful.cli.looking import ls, report
from attn_faithful.cli.sharing import install_metrics, push
from attn_faithful.cli.stopping import EVALUATING, TRAINING, status_of, stopped_softly, told
from attn_faithful.cli.training import attefa, check, run, train
from attn_faithful.experiments.threads import asked_for
from attn_faithful.reports.characters import degrading, visible

# The heavy imports stand inside the commands: --help must answer at once, and so must what is misspelt.
_TRAINS = ("attn_faithful.api", "attn_faithful.experiments.run_cell")
_EVALUATES = ("attn_faithful.api", "attn_faithful.experiments.run_evaluation")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0, 2 for bad input, 130 when interrupted."""
    with degrading(sys.stdout, sys.stderr):
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        given.early(given)
        with stopped_softly(), asked_for(given.threads):
            load(given.loads)
            return int(given.command(given) or 0)
    except (InputError, OSError) as error:
        if given.debug:
            raise
        for fault in error.faults if isinstance(error, SeveralFaultsError) else [error]:
            print(f"attn-faithful: {_sentence(fault)}", file=sys.stderr)
        return 2
    except (MemoryError, RuntimeError) as error:
        if given.debug or not is_of_memory(error):
            raise
        said = ["there is not enough memory; take a smaller model, batch or limit.", *notes_of(error)]
        print(f"attn-faithful: {visible(' '.join(said))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print(f"\nattn-faithful: {visible(told(error, given.kept))}", file=sys.stderr)
        return status_of(error)


def _sentence(error: Exception | str) -> str:
    said = " ".join(str(error).split())
    notes = notes_of(error)
    if isinstance(error, OSError) and error.strerror:
        where = f" {error.filename}" if error.filename else ""
        said = f"cannot write or read{where}: {error.strerror}."
        notes = [*(notes or ["What was finished is kept."]), "Free the disk or choose --output."]
    return visible(" ".join([said, *notes]))


class _Parser(argparse.ArgumentParser):
    """Its errors repeat what was typed, control characters too."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="attn-faithful",
        description="May this model's attention be shown as an explanation of its predictions?",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(early=lambda given: None, loads=(), threads=None, kept=None)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    for add in (
        _add_run,
        _add_train,
        _add_attefa,
        _add_evaluate,
        _add_explain,
        _add_report,
        _add_ls,
        _add_check,
        _add_install_metrics,
        _add_push,
    ):
        add(commands)
    return parser


def _add_run(commands: Any) -> None:
    parser = commands.add_parser("run", help="carry out a recipe and print its tables")
    parser.add_argument("recipe", help="a YAML file, or quickstart, papers/meister_2021 and so on")
    parser.set_defaults(kept=TRAINING, command=run, early=early.run, loads=_TRAINS)
    _shared(parser)
    _cells(parser)


def _add_train(commands: Any) -> None:
    parser = commands.add_parser("train", help="train attention classifiers, without twins")
    parser.set_defaults(kept=TRAINING, command=train, early=early.train, loads=_TRAINS)
    _shared(parser)
    _single(parser)


def _add_attefa(commands: Any) -> None:
    parser = commands.add_parser("attefa", help="train a classifier and its adversarial twins, report AtteFa")
    parser.set_defaults(kept=TRAINING, command=attefa, early=early.attefa, loads=_TRAINS)
    _shared(parser)
    _single(parser)
    parser.add_argument("--model", metavar="MODEL", help="instead, twins of a transformers classifier: a folder or id")
    parser.add_argument("--layers", metavar="N,N", help="with --model: whose heads are to differ (default: all)")
    parser.add_argument("--twin-seeds", metavar="N,N", help="twins of each base (default: one)")
    parser.add_argument("--twin-epochs", type=int, metavar="N", help="at most this many (default: 80)")
    parser.add_argument(
        "--max-tvd", type=float, metavar="X", help="also a constrained twin: the largest JSD at this mean TVD"
    )
    parser.add_argument(
        "--weights", metavar="X,X", help="also twins at these weights of JSD: the curve of TVD against JSD"
    )
    parser.add_argument("--controls", metavar="NAME,NAME", help="uniform, imposed")


def _add_evaluate(commands: Any) -> None:
    parser = commands.add_parser("evaluate", help="run the tests on a trained model and a data set")
    parser.add_argument("model", help="a folder or a Hub id")
    parser.set_defaults(kept=EVALUATING, command=evaluate, early=early.evaluate, loads=_EVALUATES)
    parser.add_argument("--data", required=True, help="a Hub id, a folder, a file, or mock-1 and so on")
    _columns(parser)
    parser.add_argument("--split", help="train, validation or test (default: test)")
    parser.add_argument("--tests", metavar="NAME,NAME", help="correlation, permutation, flips ... (default: all)")
    parser.add_argument("--layers", help="of a transformers model: last (default), all, joint, or numbers: 0,5")
    parser.add_argument("--queries", help="of a transformers model: auto (default), token, mean, all")
    parser.add_argument("--units", help="word (default) or token: what items are")
    parser.add_argument("--target", help="importance for which class: predicted (default), gold or a class's name")
    parser.add_argument("--controls", metavar="NAME,NAME", help="uniform, random (default: both)")
    parser.add_argument("--source-file", metavar="FILE", help="importance computed elsewhere, by example and token")
    parser.add_argument("--name", default="evaluate", help="folder below --output (default: evaluate)")
    _everywhere(parser)


def _add_explain(commands: Any) -> None:
    parser = commands.add_parser("explain", help="show the attention of one text, and what stands against it")
    parser.add_argument("model", help="a folder or a Hub id")
    parser.add_argument("text", nargs="+", help="one text, or several in quotes")
    parser.set_defaults(command=explain, early=early.explain, loads=_EVALUATES)
    parser.add_argument("--sources", metavar="NAME,NAME", help="of importance (default: gradient and leave-one-out)")
    parser.add_argument("--html", metavar="FILE", help="also write the page with the heat maps")
    _threads(parser)


def _add_report(commands: Any) -> None:
    parser = commands.add_parser("report", help="write the tables, figures and pages of finished runs")
    parser.add_argument("run", nargs="+", help="run folders, or folders of runs")
    parser.set_defaults(command=report)
    parser.add_argument("--output", metavar="DIR", help="where to (default: the folder report in RUN)")
    parser.add_argument("--no-pages", action="store_true", help="tables and figures only")


def _add_push(commands: Any) -> None:
    parser = commands.add_parser("push", help="put a model, a metric, a run's data or a report on the Hub")
    parser.add_argument("kind", choices=["model", "metric", "data", "report"])
    parser.add_argument("what", help="a run folder, a saved model, the name of a metric, or an HTML page")
    parser.set_defaults(command=push)
    parser.add_argument("--to", required=True, metavar="USER/NAME")
    parser.add_argument("--private", action="store_true", help="hide it from others")
    parser.add_argument(
        "--results", nargs="+", default=[], metavar="RUN", help="of a model: runs of evaluate on it, for its card"
    )
    parser.add_argument("--license", metavar="ID", help="of a model, as the Hub writes them: apache-2.0, mit ...")
    parser.add_argument("--into", metavar="DIR", help="of a model: write what would be pushed into DIR, push nothing")


def _add_ls(commands: Any) -> None:
    parser = commands.add_parser("ls", help="list finished runs")
    parser.set_defaults(command=ls)
    parser.add_argument("folder", nargs="*", default=["runs"], help="folders of runs (default: runs)")


def _add_check(commands: Any) -> None:
    parser = commands.add_parser("check", help="tell what is wrong with a recipe or a data set, before any work")
    parser.set_defaults(command=check, early=early.check, loads=_TRAINS)
    parser.add_argument("what", help="a recipe (.yaml), or a data set: a Hub id, folder, file, mock-1 ...")
    parser.add_argument("--model", metavar="MODEL", help="whether this trained model can be tested on the data set")
    parser.add_argument("--split", help="with --model: train, validation or test (default: test)")
    _shared(parser)
    _cells(parser)
    _columns(parser)


def _add_install_metrics(commands: Any) -> None:
    parser = commands.add_parser(
        "install-metrics", help='make evaluate.load("attefa") work from any folder, offline too'
    )
    parser.set_defaults(command=install_metrics)
    parser.add_argument("metric", nargs="*", help="names (default: all)")


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
    _threads(group)
    group.add_argument("--full", action="store_true", help="print all tables, not the answer and the short ones alone")
    group.add_argument("--processes", type=int, metavar="N", help="fail unless the launcher started this many")
    return group


def _threads(parser: Any) -> None:
    parser.add_argument("--threads", type=int, metavar="N", help="of a process (default: one for small models)")


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
