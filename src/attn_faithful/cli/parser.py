"""The flags of every command. The heavy imports stand inside the commands, so that --help answers at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

import attn_faithful.cli.early as early
from attn_faithful.cli.benching import bench
from attn_faithful.cli.checking import check
from attn_faithful.cli.evaluating import evaluate, explain
from attn_faithful.cli.examples import PROGRAM, epilog
from attn_faithful.cli.looking import compare, ls, report
from attn_faithful.cli.sharing import install_metrics, push
from attn_faithful.cli.stopping import BENCHING, EVALUATING, TRAINING
from attn_faithful.cli.training import attefa, run, train
from attn_faithful.experiments.spellings import warn_of_old
from attn_faithful.reports.characters import visible

_TRAINS = ("attn_faithful.api", "attn_faithful.experiments.run_cell")
_EVALUATES = ("attn_faithful.api", "attn_faithful.experiments.run_evaluation", "datasets")
_BENCHES = (*_EVALUATES, "attn_faithful.bench.submitting")
_DATA = "a Hub id, a folder, a file, or mock-1 and so on"


class _Parser(argparse.ArgumentParser):
    """Its errors repeat what was typed, control characters too."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


class _OldFlag(argparse.Action):
    """A flag by its old name: it sets what the new one sets, and a warning names that."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        new = f"--{self.dest.replace('_', '-')}"
        warn_of_old("", str(self.option_strings[0]), new)
        setattr(namespace, self.dest, values)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command and its flags."""
    return whole_parser().parse_args(argv)


def whole_parser() -> argparse.ArgumentParser:
    """The parser of every command."""
    parser = _Parser(
        prog=PROGRAM,
        description="May this model's attention be shown as an explanation of its predictions?",
        epilog=epilog(""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
        _add_bench,
        _add_report,
        _add_compare,
        _add_ls,
        _add_check,
        _add_install_metrics,
        _add_push,
    ):
        add(commands)
    return parser


def _command(commands: Any, name: str, does: str) -> argparse.ArgumentParser:
    """The parser of a command, whose help says what it does first and ends with two examples."""
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=does,
        description=f"{does[0].upper()}{does[1:]}.",
        epilog=epilog(name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


# commands that train


def _add_run(commands: Any) -> None:
    parser = _command(commands, "run", "carry out a recipe and print its tables")
    parser.set_defaults(kept=TRAINING, command=run, early=early.run, loads=_TRAINS)
    parser.add_argument("recipe", help="a YAML file, or quickstart, papers/meister_2021 and so on")
    _training_flags(parser)
    _cell_flags(parser)


def _add_train(commands: Any) -> None:
    parser = _command(commands, "train", "train classifiers without twins, or fine-tune a transformers model")
    parser.set_defaults(kept=TRAINING, command=train, early=early.train, loads=_TRAINS)
    _training_flags(parser)
    _model_flags(parser)
    add = parser.add_argument
    add("--model", metavar="MODEL", help="instead, fine-tune this transformers model: a folder or a Hub id")


def _add_attefa(commands: Any) -> None:
    parser = _command(commands, "attefa", "train a classifier and its adversarial twins, report AtteFa")
    parser.set_defaults(kept=TRAINING, command=attefa, early=early.attefa, loads=_TRAINS)
    _training_flags(parser)
    _model_flags(parser)
    add = parser.add_argument
    add("--model", metavar="MODEL", help="instead, twins of this transformers classifier: a folder or a Hub id")
    add("--layers", metavar="N,N", help="with --model: layers whose heads are to differ (default: all)")
    add("--twin-seeds", metavar="N,N", help="seeds of the twins of each base (default: one twin)")
    add("--twin-epochs", type=int, metavar="N", help="epochs of a twin at most (default: 80)")
    add("--max-tvd", type=float, metavar="X", help="also a constrained twin: the largest JSD at this mean TVD")
    add("--weights", metavar="X,X", help="also twins at these weights of JSD: the curve of TVD against JSD")
    controls = "uniform, mlp, imposed_uniform, imposed, imposed_twin"
    add("--wiegreffe-pinter", metavar="NAME,NAME", help=f"also the controls of Wiegreffe and Pinter: {controls}")
    add("--controls", action=_OldFlag, dest="wiegreffe_pinter", help=argparse.SUPPRESS)


def _add_check(commands: Any) -> None:
    parser = _command(commands, "check", "list the faults of a recipe or a data set, before any work")
    parser.set_defaults(command=check, early=early.check, loads=_TRAINS)
    parser.add_argument("what", help="a recipe (.yaml), or a data set: a Hub id, a folder, a file, mock-1 ...")
    parser.add_argument("--model", metavar="MODEL", help="a trained model that is to be tested on the data set")
    parser.add_argument("--split", help="with --model: train, validation or test (default: test)")
    _training_flags(parser)
    _cell_flags(parser)
    _column_flags(parser)


# commands that test a trained model


def _add_evaluate(commands: Any) -> None:
    parser = _command(commands, "evaluate", "run the tests on a trained model and a data set")
    parser.set_defaults(kept=EVALUATING, command=evaluate, early=early.evaluate, loads=_EVALUATES)
    parser.add_argument("model", help="a folder or a Hub id")
    parser.add_argument("--data", required=True, help=_DATA)
    _column_flags(parser)
    add = parser.add_argument
    add("--split", help="train, validation or test (default: test)")
    add("--tests", metavar="NAME,NAME", help="correlation, flips ... (default: all but randomisation)")
    add("--layers", help="of a transformers model: last (default), all, joint, or numbers: 0,5")
    add("--queries", help="of a transformers model: auto (default), token, mean, all")
    add("--units", help="items of attention: word (default) or token")
    add("--dtype", default="float32", help="of a transformers model's blocks: float32 (default), bfloat16, float16")
    add("--target", help="class that importance is about: predicted (default), gold or a class's name")
    add("--controls", metavar="NAME,NAME", help="null attention beside the model's: uniform, random (default: both)")
    add("--source-file", metavar="FILE", help="importance computed elsewhere, such as af.explanations.from_shap saves")
    add("--fit-data", metavar="DATA", help="texts to fit learned_heads on (default: the training split of --data)")
    add("--fit-texts", type=int, metavar="N", help="on how many of them (default: 300)")
    add("--name", default="evaluate", help="folder below --output (default: evaluate)")
    group = _common_flags(parser)
    group.add_argument("--seeds", metavar="N,N", help="seeds of all random choices, a run for each (default: 0)")
    group.add_argument("--chunk-size", type=int, metavar="N", help="texts whose results are written together")
    group.add_argument("--batch-size", type=int, action=_OldFlag, dest="chunk_size", help=argparse.SUPPRESS)


def _add_explain(commands: Any) -> None:
    parser = _command(commands, "explain", "show the attention of one text, and what stands against it")
    parser.set_defaults(command=explain, early=early.explain, loads=_EVALUATES)
    parser.add_argument("model", help="a folder or a Hub id")
    parser.add_argument("text", nargs="+", help="one text, or several in quotes")
    parser.add_argument("--sources", metavar="NAME,NAME", help="of importance (default: gradient and leave-one-out)")
    parser.add_argument("--html", metavar="FILE", help="also write the page with the heat maps")
    _computing_flags(parser)


def _add_bench(commands: Any) -> None:
    parser = _command(commands, "bench", "measure tests and explanations on models whose truth is known")
    parser.set_defaults(kept=BENCHING, command=bench, early=early.bench, loads=_BENCHES)
    parser.add_argument(
        "set", nargs="?", help="a folder or a Hub id (default: the one below --output, made if need be)"
    )
    add = parser.add_argument
    add("--source-file", metavar="FILE", help="an explanation computed elsewhere, by example and token")
    add("--metric", metavar="MODULE:FUNCTION", help="a test of yours: a number a text, the higher the more faithful")
    add("--name", help="of what is entered (default: that of the file or function)")
    add("--make-only", action="store_true", help="make or read the set, measure nothing")
    add("--no-twins", action="store_true", help="leave out AtteFa, for which a twin of each model is trained")
    add("--smoke", action="store_true", help="a small set, made in a minute")
    add("--output", default="runs", metavar="DIR", help="folder of set, results and leaderboard (default: runs)")
    add("--full", action="store_true", help="print all rows of the tables")
    add("--processes", type=int, metavar="N", help="fail unless the launcher started this many")
    _computing_flags(parser)


# commands that show and share what is there


def _add_report(commands: Any) -> None:
    parser = _command(commands, "report", "write the tables, figures and pages of finished runs")
    parser.set_defaults(command=report)
    parser.add_argument("run", nargs="+", help="run folders, or folders of runs")
    parser.add_argument("--output", metavar="DIR", help="folder of the report (default: the folder report in RUN)")
    parser.add_argument("--no-pages", action="store_true", help="write tables and figures only")
    parser.add_argument("--appendix", action="store_true", help="also write the method appendix of a paper (LaTeX)")


def _add_compare(commands: Any) -> None:
    parser = _command(commands, "compare", "show two models over the same texts side by side")
    parser.set_defaults(command=compare, early=early.compare)
    parser.add_argument("run", nargs="+", help="two run folders; or one with twins: its base and a twin")
    add = parser.add_argument
    add("--twin", metavar="NAME", help="of one run: which of its twins, such as attefa-10 (default: the first)")
    add("--names", metavar="A,B", help="what to call the models (default: what tells their runs apart)")
    add("--html", action="store_true", help="also write the page with every text, beside the first run")
    add("--output", metavar="FILE", help="write the page to this file")
    add("--full", action="store_true", help="print the numbers of all sources of importance")


def _add_ls(commands: Any) -> None:
    parser = _command(commands, "ls", "list finished runs")
    parser.set_defaults(command=ls)
    parser.add_argument("folder", nargs="*", default=["runs"], help="folders of runs (default: runs)")


def _add_push(commands: Any) -> None:
    parser = _command(commands, "push", "put a model, a metric, a run, a report or a set of bench on the Hub")
    parser.set_defaults(command=push)
    parser.add_argument("kind", choices=["model", "metric", "data", "report", "bench", "leaderboard"])
    parser.add_argument(
        "what",
        help="a run folder, a saved model, the name of a metric, an HTML page, a set of bench, a folder of its results",
    )
    add = parser.add_argument
    add("--to", required=True, metavar="USER/NAME", help="the repository on the Hub")
    add("--private", action="store_true", help="make the repository private")
    add("--results", nargs="+", default=[], metavar="RUN", help="of a model: runs of evaluate on it, for its card")
    add("--license", metavar="ID", help="of a model or set, as the Hub writes licences: apache-2.0, mit ...")
    add("--into", metavar="DIR", help="of a model, set or leaderboard: write all files into DIR, push nothing")


def _add_install_metrics(commands: Any) -> None:
    parser = _command(commands, "install-metrics", 'make evaluate.load("attefa") work from any folder, offline too')
    parser.set_defaults(command=install_metrics)
    parser.add_argument("metric", nargs="*", help="names (default: all)")


# flags that several commands have


def _common_flags(parser: argparse.ArgumentParser) -> Any:
    """The flags that every command with texts shares."""
    group = parser.add_argument_group("shared by the commands")
    add = group.add_argument
    add("--output", default="runs", metavar="DIR", help="folder of the run folders (default: runs)")
    add("--limit", type=int, metavar="N", help="texts of each split at most")
    add("--smoke", action="store_true", help="a run of seconds that shows that everything works")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="any key of a recipe, such as twin.epochs=20")
    _computing_flags(group)
    add("--full", action="store_true", help="print all tables, not the answer and the short tables alone")
    add("--processes", type=int, metavar="N", help="fail unless the launcher started this many")
    return group


def _training_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that every command with training shares."""
    add = _common_flags(parser).add_argument
    add("--batch-size", type=int, metavar="N", help="texts of a training step")
    add("--seeds", metavar="N,N", help="seeds, a base model for each")
    add("--vectors", metavar="FILE", help="word vectors: GloVe, word2vec or fastText text, .gz too")
    add("--parallel", default="cells", help="what several processes share: cells (default), or data of one model")


def _computing_flags(parser: Any) -> None:
    add = parser.add_argument
    add("--threads", type=int, metavar="N", help="threads of a process (default: one for small models)")
    add("--device", default="auto", metavar="NAME", help="cpu, cuda, cuda:1 (default: auto, CUDA where it is)")


def _cell_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of commands that read a recipe."""
    parser.add_argument(
        "--only", action="append", default=[], metavar="AXIS=LABEL[,LABEL]", help="only these cells of the grid"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="folder of local copies of the recipe's data sets")


def _model_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of commands that make a recipe of one data set."""
    group = parser.add_argument_group("data and model")
    group.add_argument("--data", required=True, help=_DATA)
    _column_flags(group)
    add = group.add_argument
    add(
        "--encoder",
        help="lstm (default), gru, orthogonal_lstm, mlp, average, cnn, transformer, none (several: a,b)",
    )
    add("--attention", help="additive, dot, uniform")
    add("--projection", help="softmax, sparsemax, sparsegen, entmax15, entmax")
    add("--epochs", type=int, metavar="N", help="epochs of the base (default: 8; with --model 3)")
    add("--learning-rate", type=float, metavar="X", help="of base and twin (default: 0.001; train --model: 2e-5)")
    add("--name", help="folder below --output (default: the command's name)")


def _column_flags(parser: Any) -> None:
    add = parser.add_argument
    add("--text-column", help="column of the texts; of pairs, of the text that is attended to")
    add("--query-column", help="of pairs: column of the question or hypothesis that asks the attention")
    add("--label-column", help="column of the labels")
    add("--keep", metavar="LABEL,LABEL", help="only these labels")
    add("--drop", metavar="LABEL,LABEL", help="all but these labels")
    add("--map", metavar="LABEL=NAME,LABEL=NAME", help="rename or merge labels")
