"""The tables and figures of the four papers, the parts of a report that reproduce each, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attn_faithful.reports.escaping import markdown

PAGE = "page"  # what stands for a heat map


@dataclass(frozen=True)
class Printed:
    """A table or figure of a paper.

    Attributes:
        number: as printed, such as "figure 2".
        shows: what it holds.
        ours: names of a report's figures and tables; () where there is nothing like it.
        why: why there is nothing like it, or what is different.
    """

    number: str
    shows: str
    ours: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Paper:
    """A paper and its recipe.

    Attributes:
        name: as figures call it.
        lead: how the claim of its recipe begins.
        recipe: the file in recipes/papers.
        printed: its tables and figures.
        missing: data set -> why no program can fetch it.
    """

    name: str
    lead: str
    recipe: str
    printed: tuple[Printed, ...]
    missing: Mapping[str, str] = field(default_factory=dict, compare=False)

    def not_here(self, data: str) -> str:
        """The text in place of the numbers of a missing data set.

        Example:
            >>> paper_of("Amini and Kosseim, table 3").not_here("Anemia")[:70]
            'not here: MIMIC-III needs PhysioNet credentials; with a folder of it: '
        """
        only = f'"data={data}"' if " " in data else f"data={data}"
        command = f"attn-faithful run recipes/papers/{self.recipe} --only {only} --data-dir DIR"
        return f"not here: {self.missing[data]}; with a folder of it: {command}"


def number_by_number(paper: Paper, find: Callable[[str], tuple[list[str], str]]) -> str:
    """A table of a paper's tables and figures, in Markdown.

    Args:
        paper: one of the four.
        find: name of a figure or table -> links to what there is of it, and else why there is nothing.
    """
    lines = ["| printed | what it shows | here |", "| --- | --- | --- |"]
    for printed in paper.printed:
        lines.append(f"| {printed.number} | {printed.shows} | {_here(printed, find)} |")
    return "\n".join(lines)


def _here(printed: Printed, find: Callable[[str], tuple[list[str], str]]) -> str:
    """Links to our version of a printed table or figure, or why there is none."""
    links: list[str] = []
    reasons: list[str] = []
    for name in printed.ours:
        links_of_name, reason = find(name)
        links += links_of_name
        if reason:
            reasons.append(markdown(reason))
    if not links:
        why = reasons[0] if reasons else printed.why
        return f"not here: {why}"
    here = ", ".join(links)
    if printed.why:
        return f"{here} ({printed.why})"
    return here


def paper_of(claim: str) -> Paper | None:
    """The paper that a recipe's claim names; None where it is none of the four."""
    for paper in PAPERS:
        if claim.startswith(paper.lead):
            return paper
    return None


_DRAWING = "a drawing of the method, no result"
_BESIDE, _DATA, _BASES = "beside_the_paper", "data", "base_models"
_OUTCOMES = "of the top and of a random item removed, whose decision changes"
_MIMIC = "MIMIC-III needs PhysioNet credentials"
_PATIENTS = {"Diabetes": _MIMIC, "Anemia": _MIMIC}

PAPERS = (
    Paper(
        "Jain and Wallace 2019",
        "Jain and Wallace",
        "jain_wallace_2019.yaml",
        (
            Printed("figure 1", "a text under its own and another attention", (PAGE,)),
            Printed("table 1", "data sets and performance", (_DATA, _BASES, _BESIDE)),
            Printed("table 2", "tau with gradients and leave-one-out", ("attention_correlation", _BESIDE)),
            Printed("figure 2", "histograms of tau", ("tau_histograms",)),
            Printed("figure 3", "leave-one-out with gradients, minus with attention", ("correlation_differences",)),
            Printed("figure 4", "the same, the other way round", ("correlation_differences",)),
            Printed("figure 5", "tau with leave-one-out by encoder", ("correlation_by_model",)),
            Printed("figure 6", "largest attention against permutation's effect", ("permutation",)),
            Printed("figure 7", "histograms of the largest adversarial JSD", ("adversarial_histogram",)),
            Printed("figure 8", "the same against the largest attention", ("adversarial_scatter",)),
        ),
        {
            **_PATIENTS,
            "ADR Tweets": "no public copy of the paper's tweets is known to the recipe",
            "CNN": "no copy on the Hub is known to the recipe",
        },
    ),
    Paper(
        "Serrano and Smith 2019",
        "Serrano and Smith",
        "serrano_smith_2019.yaml",
        (
            Printed("figure 1", "how a weight is zeroed", why=_DRAWING),
            Printed("table 1", "data sets", (_DATA,)),
            Printed("figure 2", "the flat network", why=_DRAWING),
            Printed("figure 3", "delta JS against delta attention", ("removal_difference",)),
            Printed("figure 4", "how often delta JS is negative", ("negative_differences",)),
            Printed("table 2", _OUTCOMES, ("flip_outcomes", "flip_contingency", _BESIDE)),
            Printed("figure 5", "share of items removed, three models", ("fraction_removed", "flip_fractions")),
            Printed("figure 6", "the same without encoders", ("fraction_removed", "flip_fractions")),
            Printed("table 3", "accuracies", (_BASES, _BESIDE)),
            Printed("figure 7", "figure 3 for all models", ("removal_difference",)),
            Printed("figure 8", "figure 4 for all models", ("negative_differences",)),
            Printed("figure 9", "table 2 for all models", ("flip_outcomes", "flip_contingency")),
            Printed("figure 10", "figure 5 for all models", ("fraction_removed", "flip_fractions")),
            Printed("figure 11", "attention removed", ("mass_removed", "flip_fractions")),
            Printed("figure 12", "figure 9 by the gradient", ("flip_outcomes", "flip_contingency")),
            Printed("figure 13", "figure 9 by the product", ("flip_outcomes", "flip_contingency", _BESIDE)),
        ),
        {
            "Amazon": "no copy with the paper's five classes is known to the recipe",
            "IMDB": "no copy with the paper's ten ratings is known to the recipe",
        },
    ),
    Paper(
        "Amini and Kosseim",
        "Amini and Kosseim",
        "amini_kosseim.yaml",
        (
            Printed("table 1", "data sets", (_DATA,)),
            Printed("table 2", "F1 of the bases", (_BASES, _BESIDE)),
            Printed("table 3", "the twins and AtteFa", ("attefa", _BESIDE)),
            Printed("figure 1", "distribution of AtteFa", ("attefa_violins",)),
            Printed(
                "figure 2",
                "TVD against JSD, beside Wiegreffe and Pinter's",
                ("twin_tradeoff",),
                "their points were not printed as numbers; ours are twins of several weights",
            ),
            Printed("table 4", "twins by seed, planted tokens", ("twins_by_seed",)),
            Printed("table 5", "twins by seed, real data", ("twins_by_seed",)),
        ),
        _PATIENTS,
    ),
    Paper(
        "Meister et al. 2021",
        "Meister et al",
        "meister_2021.yaml",
        (
            Printed("figure 1", "tau with gradients of inputs and of states", ("correlation_by_model",)),
            Printed("table 1", "how much of a text a state depends on", ("hidden_entropy", _BESIDE)),
            Printed("figure 2", "entropy of importance by projection", ("entropy_by_setting", "importance_entropy")),
            Printed("table 2", "tau of lambda with that entropy", ("trends",)),
            Printed("figure 3", "tau with importance against lambda", ("correlation_by_setting",)),
        ),
    ),
)
