"""The answer of a run: how well the model predicts, the verdict or why there is none, what each test says, and what
may be shown.

`evaluate`, `attefa`, `run`, `explain`, `report`, the page, the model card and a notebook show it first, all from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from attn_faithful._checks import InputError
from attn_faithful.reports.answer.about import about, distinct, doubts
from attn_faithful.reports.answer.competence import Competence, competence_of
from attn_faithful.reports.answer.findings import findings
from attn_faithful.reports.answer.recommendation import recommendation_text
from attn_faithful.reports.answer.sentences import sentences
from attn_faithful.reports.answer.verdict import ENOUGH, MIXED, TEXTS, Verdict, verdict
from attn_faithful.reports.answer.wording import Sentence, plain
from attn_faithful.reports.characters import visible, writable
from attn_faithful.reports.groups import SeedRuns
from attn_faithful.reports.run import Run
from attn_faithful.reports.scores import Scores


@dataclass(frozen=True)
class Answer:
    """What a run says first.

    Attributes:
        title: the labels of the run's axes.
        about: how many texts were tested, and which attention.
        competence: how well the model predicts, one a seed.
        verdict: what the tests say together; None where there is none.
        reason: why there is no verdict; "" where there is one.
        sentences: what each test says, with its n.
        n: different texts of each seed.
        doubts: what sets the texts apart from those of the training, and what was cut.
        recommendation: what may be shown as an explanation; "" where no sources were ranked.
    """

    title: str
    about: str
    competence: Sequence[Competence]
    verdict: Verdict | None
    reason: str
    sentences: Sequence[Sentence] = ()
    n: int = 0
    doubts: Sequence[str] = field(default=())
    recommendation: str = ""

    @property
    def few(self) -> str:
        """The mark of a small number of texts; empty where they are enough."""
        if self.n >= ENOUGH:
            return ""
        return f"few texts: {self.n:,}"

    @property
    def competence_text(self) -> str:
        """How well the model predicts, in words."""
        if len(self.competence) == 1:
            return self.competence[0].sentence
        return " ".join(f"Seed {each.seed}: {each.sentence}" for each in self.competence)

    @property
    def known(self) -> bool:
        """Whether it is known how well the model predicts."""
        return all(each.known for each in self.competence)

    @property
    def verdict_text(self) -> str:
        """The verdict, or why there is none."""
        if self.verdict is None:
            text = f"No verdict: {self.reason}"
            if self.few:
                text += "; the numbers may be those of these texts alone"
        else:
            text = f"Verdict: {self.verdict.text}"
            if not self.known:
                text += ", as far as the model predicts well, which is unknown"
        return f"{text}."

    @property
    def pill(self) -> str:
        """The verdict as a badge."""
        if self.verdict is None:
            return "no verdict"
        if not self.known:
            return f"{self.verdict.text}; competence unknown"
        return self.verdict.text

    @property
    def statements(self) -> list[str]:
        """The sentences of the tests without links."""
        return [plain(sentence) for sentence in self.sentences]

    @property
    def lines(self) -> list[str]:
        """All of it, a line each: what was tested, competence, verdict, marks, sentences, what may be shown."""
        first = self.about
        if self.title:
            first = f"{self.title}: {self.about}"
        last = [self.recommendation] if self.recommendation else []
        return [first, self.competence_text, self.verdict_text, *self.doubts, *self.statements, *last]

    @property
    def short(self) -> str:
        """One line: the verdict with the accuracy."""
        return f"{self.title}: {self._accuracy}. {self.verdict_text}"

    @property
    def _accuracy(self) -> str:
        known = [each for each in self.competence if each.known]
        if not known:
            return "accuracy unknown"
        majority = f"(majority {known[0].majority:.2f})"
        values = sorted({f"{each.accuracy:.2f}" for each in known})
        if len(values) == 1:
            return f"accuracy {values[0]} {majority}"
        return f"accuracy {values[0]} to {values[-1]} {majority}"

    # renderings

    def __str__(self) -> str:
        return "\n".join(map(visible, self.lines))

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        from rich.text import Text

        for line in self.lines:
            style = "bold" if line in self._strong else ""
            yield Text(writable(line, options.encoding), style=style)

    def html(self) -> Markup:
        """A fragment; whatever names hold is text and no markup."""
        first, *rest = self.lines
        paragraphs = Markup("")
        for line in rest:
            frame = "<p><b>{}</b></p>" if line in self._strong else "<p>{}</p>"
            paragraphs += Markup(frame).format(line)
        return Markup("<div><p>{}</p>{}</div>").format(first, paragraphs)

    @property
    def _strong(self) -> tuple[str, ...]:
        """The lines that stand out."""
        return self.competence_text, self.verdict_text, self.recommendation

    def _repr_html_(self) -> str:
        return str(self.html())


def answer(runs: Run | Sequence[Run], site: str | None = None, title: str | None = None) -> Answer:
    """The answer of a run, or of the runs of one model over seeds.

    Over several seeds a verdict needs the same one from each; the sentences are over the texts of all of them.

    Args:
        runs: one, or one a seed.
        site: where in the model; None for the one nearest to the output that was tested.
        title: what tells it from others; None for the labels of the run's axes.

    Raises:
        InputError: no run.
    """
    runs = [runs] if isinstance(runs, Run) else list(runs)
    if not runs:
        raise InputError("Expected at least one run, but got none.")
    if site is None:
        site = runs[0].main_site
    if title is None:
        title = runs[0].title
    competence = list(map(competence_of, runs))
    single = [_verdict(run, site, each) for run, each in zip(runs, competence, strict=True)]
    joint, reason = _joint_verdict(runs, single)
    n = min(map(distinct, runs))
    unfit = any(each.why_not is not None for each in competence)
    return Answer(
        title=title,
        about=about(runs, site),
        competence=competence,
        verdict=joint,
        reason=reason,
        sentences=sentences(Scores(runs, site)),
        n=n,
        doubts=doubts(runs[0]),
        recommendation=recommendation_text(runs, site, n, unfit),
    )


def _verdict(run: Run, site: str | None, competence: Competence) -> tuple[Verdict | None, str]:
    if not run.records and not run.summary.twins:
        return None, "no test was run; attn-faithful evaluate MODEL --data DATA runs them"
    return verdict(findings(Scores([run], site)), len(run.ids), competence.why_not, distinct(run))


def _joint_verdict(runs: Sequence[Run], verdicts: Sequence[tuple[Verdict | None, str]]) -> tuple[Verdict | None, str]:
    """The verdict of several seeds: none where one has none, mixed where they differ."""
    keys = set()
    reasons = {reason for _, reason in verdicts}
    for run, (each, reason) in zip(runs, verdicts, strict=True):
        if each is None:
            of_seed = f"seed {run.seed}: {reason}" if len(reasons) > 1 else reason
            return None, of_seed
        keys.add(each.key)
    key = keys.pop() if len(keys) == 1 else MIXED
    return Verdict(key, TEXTS[key]), ""


def answers(models: Sequence[SeedRuns]) -> list[Answer]:
    """One answer a model, from its runs over seeds."""
    return [answer(model.runs, title=model.title) for model in models]
