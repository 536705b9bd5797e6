"""What every converter gives: texts with scored stretches, which are saved as a source file or laid on words."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_faithful._atomic import write_file, write_text
from attn_faithful._checks import InputError, check_choice, check_same_length
from attn_faithful.data.normalization import Span
from attn_faithful.data.span_scores import lay_scores
from attn_faithful.explanations.display import text_html, texts_html

UNITS = ("word", "token")


@dataclass(frozen=True)
class ScoredText:
    """One text as a tool explains it.

    Attributes:
        text: raw, as the model reads it.
        tokens: the tool's own.
        spans: (start, end) of each token in the text, in characters; empty for special tokens.
        scores: one a token, in the tool's unit and with its sign.
        target: the class that the scores speak for, as the tool names it; None where it does not say.
    """

    text: str
    tokens: tuple[str, ...]
    spans: tuple[Span, ...]
    scores: tuple[float, ...]
    target: str | None = None

    def __post_init__(self) -> None:
        names = ("tokens", "spans", "scores")
        check_same_length(names, (self.tokens, self.spans, self.scores), self.text[:80])

    def _repr_html_(self) -> str:
        return str(text_html(self.text, self.spans, self.scores, self.target))


@dataclass(frozen=True)
class WordScores:
    """One explanation over what a model attends to.

    Attributes:
        text: raw.
        words: the model's words, or its tokens, as they stand in the text.
        spans: (start, end) of each in the text.
        scores: one a word, NaN where the explanation has none.
        reasons: why a word has no score; None where it has one.
        n_unplaced: scores other than 0 that are of no word, such as those of special tokens or of cut text.
        target: see `ScoredText`.
    """

    text: str
    words: tuple[str, ...]
    spans: tuple[Span, ...]
    scores: tuple[float, ...]
    reasons: tuple[str | None, ...]
    n_unplaced: int
    target: str | None = None

    def _repr_html_(self) -> str:
        return str(text_html(self.text, self.spans, self.scores, self.target))


@dataclass(frozen=True)
class Explanations(Sequence[ScoredText]):
    """Explanations of some texts by one tool.

    Attributes:
        tool: that made them.
        texts: what it says of each.

    Example:
        >>> one = ScoredText("good film", ("good", "film"), ((0, 4), (5, 9)), (0.5, 0.25), "positive")
        >>> Explanations("shap", (one,)).rows()[0]["starts"]
        [0, 5]
    """

    tool: str
    texts: tuple[ScoredText, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, place: Any) -> Any:
        return self.texts[place]

    def __iter__(self) -> Iterator[ScoredText]:
        return iter(self.texts)

    def _repr_html_(self) -> str:
        shown = [text_html(each.text, each.spans, each.scores, each.target) for each in self.texts]
        return str(texts_html(self.tool, shown))

    def rows(self, examples: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Rows of a source file: one a text with its tokens, where they stand, and their scores (None for NaN).

        Args:
            examples: ids of the texts in the data set; None to join them by their texts, see
                `data.source_file.read_source_file`.

        Raises:
            InputError: as many ids as texts are expected.
        """
        rows = [_row(scored) for scored in self.texts]
        if examples is None:
            return rows
        check_same_length(("texts", "examples"), (self.texts, examples))
        return [{"example": str(example), **row} for example, row in zip(examples, rows, strict=True)]

    def save(self, path: str | Path, examples: Sequence[str] | None = None) -> Path:
        """Write the rows as a source file, which ``attn-faithful evaluate --source-file`` reads.

        Args:
            path: a jsonl, json or parquet file.
            examples: see :meth:`rows`.

        Returns:
            the path.

        Raises:
            InputError: another kind of file, no text, or what :meth:`rows` refuses.
        """
        path = Path(path)
        kind = path.suffix.removeprefix(".").lower()
        if kind not in ("jsonl", "json", "parquet"):
            raise InputError(f"Expected a jsonl, json or parquet file, but got {str(path)!r}; its rows hold lists.")
        rows = self.rows(examples)
        if not rows:
            raise InputError("Expected explanations to save, but there are none.")
        if kind == "parquet":
            write_file(path, lambda passing: _write_parquet(passing, rows))
        elif kind == "json":
            write_text(path, json.dumps(rows, ensure_ascii=False))
        else:
            write_text(path, _lines(rows))
        return path

    def words(self, model: Any, tokenizer: Any = None, units: str = "word") -> list[WordScores]:
        """The scores of a model's words: those of tokens that share a word are summed, see `span_scores.lay_scores`.

        Args:
            model: what :func:`attn_faithful.load` or :func:`attn_faithful.wrap` gives, a transformers classifier, a
                pipeline, a folder or a Hub id.
            tokenizer: the model's; a pipeline, a folder and a Hub id bring theirs.
            units: "word", or "token" for the model's tokens.

        Returns:
            one a text, with NaN and a reason where the explanation says nothing of a word.

        Raises:
            InputError: the tokenizer does not say where its tokens stand.
        """
        check_choice("units", units, UNITS)
        items = _items(model, tokenizer, [scored.text for scored in self.texts], units)
        found = []
        for scored, words, spans in zip(self.texts, items.tokens, items.spans, strict=True):
            if spans is None:
                raise InputError(
                    f"Expected a tokenizer that says where its tokens stand in the text, but got one of "
                    f"{type(model).__name__} without offsets; use a fast one."
                )
            laid = lay_scores(scored.spans, scored.scores, spans)
            found.append(
                WordScores(
                    text=scored.text,
                    words=tuple(words),
                    spans=tuple(spans),
                    scores=tuple(laid.values),
                    reasons=tuple(laid.reasons),
                    n_unplaced=laid.n_unplaced,
                    target=scored.target,
                )
            )
        return found

    def __repr__(self) -> str:
        texts = "1 text" if len(self) == 1 else f"{len(self)} texts"
        return f"Explanations({self.tool!r}, {texts})"


def kept_file(given: Any, folder: Path) -> str | None:
    """The path of a source file; explanations are written to one first, under a name that says what they hold.

    Args:
        given: a path, explanations, or None.
        folder: for explanations.
    """
    if not isinstance(given, Explanations):
        return None if given is None else str(given)
    digest = hashlib.sha256(_lines(given.rows()).encode("utf-8")).hexdigest()[:12]
    path = folder / f"{given.tool}-{digest}.jsonl"
    return str(path if path.exists() else given.save(path))


def _row(scored: ScoredText) -> dict[str, Any]:
    return {
        "text": scored.text,
        "tokens": list(scored.tokens),
        "starts": [start for start, _ in scored.spans],
        "ends": [end for _, end in scored.spans],
        "scores": [score if math.isfinite(score) else None for score in scored.scores],
        "target": scored.target,
    }


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    columns["scores"] = pa.array(columns["scores"], pa.list_(pa.float64()))
    columns["target"] = pa.array(columns["target"], pa.string())
    pq.write_table(pa.table(columns), path)


def _items(model: Any, tokenizer: Any, texts: list[str], units: str) -> Any:
    """What an evaluation would test on these texts."""
    import datasets

    from attn_faithful.data.rows import Rows
    from attn_faithful.data.text_column import Texts
    from attn_faithful.experiments.inputs import encoded_for
    from attn_faithful.experiments.shown_items import ShownItems
    from attn_faithful.loading import model_and_tokenizer

    model, tokenizer, _ = model_and_tokenizer(model, tokenizer)
    ids = [str(place) for place in range(len(texts))]
    data = datasets.Dataset.from_dict({"text": texts, "example": ids})
    encoded = encoded_for(model, tokenizer, data)
    if units == "token" and "word_ids" in encoded.column_names:
        encoded = encoded.remove_columns("word_ids")
    return ShownItems(tokenizer, Texts.of(data, "text"), Rows.of(encoded)).for_source_file()
