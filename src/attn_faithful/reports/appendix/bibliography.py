"""Works as entries of BibTeX and as lines of text."""

from __future__ import annotations

from collections.abc import Iterable

from attn_faithful._checks import InputError
from attn_faithful.reports.appendix.works import WORKS, Work

_FIELD_OF = {"inproceedings": "booktitle", "article": "journal", "book": "publisher", "misc": "howpublished"}
_LETTERS = {"ł": r"{\l}", "ø": r"{\o}"}
_BY_KEY = {work.key: work for work in WORKS}


def work(key: str) -> Work:
    """The work of a key.

    Raises:
        InputError: there is none.
    """
    if key not in _BY_KEY:
        raise InputError(f"Expected the key of a work, but got {key!r}; choose from {', '.join(_BY_KEY)}.")
    return _BY_KEY[key]


def short(key: str) -> str:
    """Family names and year, as a text cites a work.

    Example:
        >>> short("jain-wallace-2019"), short("wilson-1927"), short("liu-2022")
        ('Jain and Wallace 2019', 'Wilson 1927', 'Liu et al. 2022')
    """
    named = work(key)
    families = [author.partition(",")[0] for author in named.authors]
    names = families[0]
    if len(families) == 2:
        names = " and ".join(families)
    elif len(families) > 2:
        names += " et al."
    return f"{names} {named.year}"


def line(key: str) -> str:
    """A work as a line of a list of references.

    Example:
        >>> line("holm-1979")[:76]
        'Sture Holm. A simple sequentially rejective multiple test procedure. Scandin'
    """
    told = work(key)
    names = []
    for author in told.authors:
        family, _, given = author.partition(", ")
        names.append(f"{given} {family}")
    joined = names[0]
    if len(names) > 1:
        joined = ", ".join(names[:-1]) + f" and {names[-1]}"
    place = told.venue
    if told.volume:
        place += f" {told.volume}"
    if told.number:
        place += f"({told.number})"
    if told.pages:
        place += f", {told.pages}"
    end = "" if told.title.endswith("?") else "."
    return f"{joined}. {told.title}{end} {place}, {told.year}."


def bibtex(keys: Iterable[str]) -> str:
    """A .bib file of some works, in the order of their keys."""
    entries = [_entry(work(key)) for key in sorted(set(keys))]
    return "\n\n".join(entries) + "\n"


def _entry(told: Work) -> str:
    """The entry of a .bib file; the title keeps its capitals."""
    fields = {
        "author": " and ".join(told.authors),
        "title": f"{{{told.title}}}",
        _FIELD_OF[told.kind]: told.venue,
        "year": str(told.year),
        "volume": told.volume,
        "number": told.number,
        "pages": told.pages.replace("-", "--"),
    }
    lines = [f"  {name} = {{{_ascii(value)}}}," for name, value in fields.items() if value]
    return "\n".join([f"@{told.kind}{{{told.key},", *lines, "}"])


def _ascii(text: str) -> str:
    """Text with the letters that BibTeX cannot sort spelt out."""
    for letter, spelling in _LETTERS.items():
        text = text.replace(letter, spelling)
    return text
