"""Two commands that each ``--help`` ends with; every one of them parses (tests/cli/test_help.py)."""

from __future__ import annotations

PROGRAM = "attn-faithful"

# command -> two lines to type; "" is the program itself
EXAMPLES: dict[str, tuple[str, str]] = {
    "": (
        "attn-faithful run quickstart",
        "attn-faithful evaluate bert-finetuned/ --data reviews.csv",
    ),
    "run": (
        "attn-faithful run papers/jain_wallace_2019 --only data=SST --data-dir data",
        "attn-faithful run my.yaml --set train.epochs=4 --smoke",
    ),
    "train": (
        "attn-faithful train --data reviews.csv --encoder lstm,mlp --seeds 1,2,3",
        "attn-faithful train --model bert-base-uncased --data reviews.csv --epochs 2",
    ),
    "attefa": (
        "attn-faithful attefa --data reviews.csv --encoder lstm,mlp --seeds 10,50",
        "attn-faithful attefa --model bert-finetuned/ --data reviews.csv",
    ),
    "evaluate": (
        "attn-faithful evaluate bert-finetuned/ --data reviews.csv --layers all",
        "attn-faithful evaluate bert-finetuned/ --data mock-1 --tests flips --limit 99",
    ),
    "explain": (
        'attn-faithful explain bert-finetuned/ "superb, if a little long"',
        'attn-faithful explain bert-finetuned/ "no fun at all" --html text.html',
    ),
    "bench": (
        "attn-faithful bench --smoke",
        "attn-faithful bench --metric my_tests:mine --name mine",
    ),
    "report": (
        "attn-faithful report runs/evaluate",
        "attn-faithful report runs/quickstart --output report --appendix",
    ),
    "compare": (
        "attn-faithful compare runs/evaluate/ONE runs/evaluate/OTHER --html",
        "attn-faithful compare runs/quickstart/RUN --twin attefa-10 --output twins.html",
    ),
    "ls": (
        "attn-faithful ls",
        "attn-faithful ls runs/evaluate runs/quickstart",
    ),
    "check": (
        "attn-faithful check reviews.csv --text-column body --label-column stars",
        "attn-faithful check papers/meister_2021 --data-dir data",
    ),
    "install-metrics": (
        "attn-faithful install-metrics",
        "attn-faithful install-metrics attefa erasure",
    ),
    "push": (
        "attn-faithful push model bert-finetuned/ --to me/my-model --private",
        "attn-faithful push bench runs/bench/set --to me/my-set --into folder",
    ),
}


def epilog(command: str) -> str:
    """What stands below a command's help.

    Example:
        >>> print(epilog("ls"))
        examples:
          attn-faithful ls
          attn-faithful ls runs/evaluate runs/quickstart
    """
    return "\n  ".join(["examples:", *EXAMPLES[command]])
