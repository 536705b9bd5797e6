"""The texts of one split with all that is known of each, and how they become a data set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from attn_faithful.data.text_column import Texts, values_at

if TYPE_CHECKING:
    import datasets


@dataclass
class SplitTable:
    """The texts of one split, column by column.

    Attributes:
        examples: an id of each text.
        texts: that attention goes over.
        labels: index of the class, -1 where unknown; a list of 0 and 1 where a text may have several.
        rows: the place of each text in its split of the source.
        queries: of pairs, the text that asks.
        candidates: 1 for each class that may be the answer.
        seen: whether a model was trained on the text.
        marks: kind, such as "rationale" -> 1 at each white-space word that is marked.
        lists: further list columns of the source, by name.
    """

    examples: list[str]
    texts: Sequence[str]
    labels: list[Any]
    rows: list[int]
    queries: Sequence[str] | None = None
    candidates: list[list[int]] | None = None
    seen: list[bool] | None = None
    marks: dict[str, list[list[int]]] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, indices: Sequence[int]) -> SplitTable:
        """The texts at ``indices``, in that order."""

        def taken(values: Sequence[Any] | None) -> Any:
            return None if values is None else values_at(values, indices)

        return replace(
            self,
            examples=taken(self.examples),
            texts=taken(self.texts),
            labels=taken(self.labels),
            rows=taken(self.rows),
            queries=taken(self.queries),
            candidates=taken(self.candidates),
            seen=taken(self.seen),
            marks={kind: taken(values) for kind, values in self.marks.items()},
            lists={name: taken(values) for name, values in self.lists.items()},
        )

    @property
    def contents(self) -> Iterable[Any]:
        """What each example says: its text, or its text and query."""
        if self.queries is None:
            return self.texts
        return zip(self.texts, self.queries, strict=True)

    @property
    def columns(self) -> dict[str, Sequence[Any]]:
        """The columns of the data set."""
        columns = {
            "example": self.examples,
            "text": self.texts,
            "label": self.labels,
            "query": self.queries,
            "candidates": self.candidates,
        }
        known = {name: values for name, values in columns.items() if values is not None}
        return {**known, **self.marks, **self.lists}

    def dataset(self, multi_label: bool) -> datasets.Dataset:
        """The data set; types do not depend on the values, but for further list columns of the source."""
        import datasets
        import pyarrow as pa

        types = {
            "example": pa.string(),
            "text": pa.large_string(),
            "query": pa.large_string(),
            "candidates": pa.list_(pa.int8()),
            "label": pa.list_(pa.int64()) if multi_label else pa.int64(),
        }
        for kind in self.marks:
            types[kind] = pa.list_(pa.int8())
        arrays = {}
        for name, values in self.columns.items():
            if isinstance(values, Texts):
                arrays[name] = values.column.cast(types[name])
            else:
                arrays[name] = pa.array(values, type=types.get(name))
        return datasets.Dataset(pa.table(arrays))


def name_apart(tables: Mapping[str, SplitTable]) -> None:
    """Put the split before each id where two splits share one."""
    ids: list[str] = []
    for table in tables.values():
        ids += table.examples
    if len(set(ids)) < len(ids):
        for split, table in tables.items():
            table.examples = [f"{split}-{example}" for example in table.examples]
