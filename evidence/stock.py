"""Fine-tunes MiniLM on four data sets and asks every test of it; whoever stops it goes on with the same command.

    python -m evidence.stock --data-dir DIR --pretrained MINILM --output runs/stock
    python -m evidence.stock --list             # what there is to do and its minutes, nothing runs

MINILM is a folder with a BERT encoder and its tokenizer. ``--model SST=FOLDER`` asks a model that was fine-tuned
before. One thing runs after the other, each as ``attn-faithful`` in a process of its own, whose output goes to
OUTPUT/logs; what fails is told at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from evidence.run import Runner
from evidence.stock_plan import Evaluation, FineTuned, Plan, read_plan


def cut(origin: Path, target: Path, tokens: int) -> None:
    """A copy of a pretrained model whose tokenizer cuts texts at so many tokens; one that is there is left as it is."""
    if (target / "tokenizer.json").exists():  # written last
        return
    from transformers import AutoModel, AutoTokenizer

    AutoModel.from_pretrained(origin).save_pretrained(target)
    tokenizer = AutoTokenizer.from_pretrained(origin)
    tokenizer.model_max_length = tokens
    tokenizer.save_pretrained(target)


def fine_tuned(model: FineTuned, plan: Plan, data_dir: Path, runner: Runner) -> Path | None:
    """The folder of a model, fine-tuned where that is not done; None where it failed."""
    pretrained = runner.output / "pretrained"
    if not runner.finish(model.name, model.command(data_dir, pretrained, plan.seed)):
        return None
    return model.folder_of(runner.output)


def ask(asked: Sequence[Evaluation], folder: Path, data: Path, runner: Runner) -> list[str]:
    """Ask tests of a model in a folder on data in another; returns the names of what is not finished."""
    unfinished = []
    for each in asked:
        if not runner.finish(each.name, each.command(data, folder)):
            unfinished.append(each.name)
    return unfinished


def named_folders(given: Sequence[str]) -> dict[str, Path]:
    """Data set -> folder of its model, of ``NAME=FOLDER``."""
    folders = {}
    for text in given:
        name, _, folder = text.partition("=")
        folders[name] = Path(folder).resolve()
    return folders


def print_list(plan: Plan) -> None:
    """What there is to do, with its minutes."""
    for model in plan.models:
        for each in (model, *plan.of(model.data)):
            print(f"{each.minutes:6.1f}  {each.name}")
    for each in plan.evaluations:
        if each.left_out is not None:
            print(f"{each.minutes:6.1f}  {each.name}: left out, {each.left_out}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder of the data sets")
    parser.add_argument("--pretrained", type=Path, metavar="MINILM", help="folder of the encoder")
    parser.add_argument(
        "--output", type=Path, default=Path("runs/stock"), metavar="DIR", help="folder of the run folders"
    )
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER", help="a fine-tuned model")
    parser.add_argument("--data", action="append", metavar="NAME", help="only this data set, such as SST")
    parser.add_argument("--part", action="append", metavar="NAME", help="only this part, such as layers")
    parser.add_argument("--list", action="store_true", help="print what there is to do")
    given = parser.parse_args()
    plan = read_plan()
    if given.list:
        print_list(plan)
        return
    if given.data_dir is None or given.pretrained is None:
        parser.error("expected --data-dir DIR and --pretrained MINILM")
    data_dir, output = given.data_dir.resolve(), given.output.resolve()
    there = named_folders(given.model)
    runner = Runner(str(data_dir), "", output)  # nothing here has word vectors
    cut(given.pretrained, output / "pretrained", plan.tokens)
    unfinished = []
    for model in plan.models:
        if given.data and model.data not in given.data:
            continue
        folder = there.get(model.data) or fine_tuned(model, plan, data_dir, runner)
        if folder is None:
            unfinished.append(model.name)
        else:
            asked = [each for each in plan.of(model.data) if not given.part or each.part in given.part]
            unfinished += ask(asked, folder, data_dir / model.folder, runner)
    if unfinished:
        raise SystemExit(f"Not finished: {', '.join(unfinished)}")


if __name__ == "__main__":
    main()
