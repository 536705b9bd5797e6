"""The settings of a data set: where its texts come from and how its columns and labels are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DataSettings:
    """Where the texts come from, which columns count, which labels are kept, and how missing splits are made.

    Attributes:
        source: ``mock-1`` and so on; a folder with train, validation and test as parquet, csv, tsv, json or jsonl (and
            a ``meta.json`` whose ``label_names`` count); a single such file; a folder of ``save_to_disk``; or a Hub
            id, ``owner/name`` or ``owner/name:configuration``.
        name: what tables call it; None for a short form of the source.
        folder: its name below ``--data-dir``, used in place of `source` where that holds it.
        local: settings that hold for that folder in place of these, since its labels may have other names.
        text_column, label_column: found by name where they are None.
        query_column: of pairs, the text that asks; found by name too (premise and hypothesis, passage and question)
            unless only ``text_column`` is given. A list column ``candidates`` then holds the labels that may be right.
        keep, drop: label names to keep or to leave out.
        label_map: merges or renames labels, such as ``{"very negative": "negative"}``; applied before keep and drop.
        mock: settings of a planted-token set (fields of `planted.MockSpec`).
        rationale: what people marked as the reason for the label, for the test "plausibility": the name of a list
            column with one 0 or 1 a white-space word, or ``supporting``, ``token_sentiment`` or ``pairs`` (see
            `rationales`).
        impermissible: words that attention must not show, for the regularizer "deceive" and the test "impermissible":
            the name of a list column with one 0 or 1 a white-space word, or the words themselves (see `impermissible`).
        multi_label: each text has a list of labels (0 and 1 for each class, or names).
        drop_none: leave out rows whose text or label is missing, and say how many, in place of an error.
        validation_share: the part of train that becomes validation where there is none, stratified by ``seed``.
        limit: at most this many texts of each split, stratified by ``seed``; or of some splits, such as
            ``{"test": 400}``.
        seed: of planted-token sets, of the splits that are made, and of the choice of texts.
        encoding: of csv, tsv and json files, such as ``cp1252``; None for UTF-8, or what their byte order mark says.
        seen: what to do with texts that the model was trained on, where a trained model is tested: ``leave_out`` or
            ``keep``; None leaves them out of a single file, and keeps and tells them in a split or texts that were
            named.
    """

    source: str = "mock-1"
    name: str | None = None
    folder: str | None = None
    text_column: str | None = None
    query_column: str | None = None
    label_column: str | None = None
    keep: list[str] | None = None
    drop: list[str] | None = None
    label_map: dict[str, str] | None = None
    local: dict[str, Any] | None = None
    mock: dict[str, Any] | None = None
    rationale: str | None = None
    impermissible: str | list[str] | None = None
    multi_label: bool = False
    drop_none: bool = False
    validation_share: float = 0.1
    limit: int | dict[str, int] | None = None
    seed: int = 0
    encoding: str | None = None
    seen: str | None = None
