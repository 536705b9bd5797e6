"""The method appendix of finished runs, in LaTeX and Markdown, with the works it cites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attn_faithful._atomic import write_text
from attn_faithful._checks import InputError
from attn_faithful.reports.appendix.as_latex import BIBLIOGRAPHY, SECTIONS, as_document, as_sections
from attn_faithful.reports.appendix.as_markdown import as_markdown
from attn_faithful.reports.appendix.bibliography import bibtex
from attn_faithful.reports.appendix.document import Section, cited
from attn_faithful.reports.appendix.models import data_and_models
from attn_faithful.reports.appendix.numbers import numbers_of
from attn_faithful.reports.appendix.settings import settings_used
from attn_faithful.reports.appendix.software import software_and_seeds
from attn_faithful.reports.appendix.statistics import statistics_used
from attn_faithful.reports.appendix.tests_run import tests_and_definitions
from attn_faithful.reports.run import Run

FOLDER, NAME = "appendix", "appendix"
TITLE = "Method appendix: how attention was tested"


@dataclass(frozen=True)
class Appendix:
    """The method appendix of some runs; a notebook shows it.

    Attributes:
        sections: what it says.
    """

    sections: tuple[Section, ...]

    @property
    def markdown(self) -> str:
        """The text in Markdown, with formulas between dollars."""
        return as_markdown(TITLE, self.sections)

    @property
    def latex(self) -> str:
        r"""The sections for ``\input`` in a paper."""
        return as_sections(self.sections)

    @property
    def bibtex(self) -> str:
        """The works that it cites."""
        return bibtex(cited(self.sections))

    def write(self, folder: str | Path) -> list[Path]:
        """Write appendix.tex (a document that compiles), sections.tex, appendix.md and references.bib.

        Args:
            folder: where to; made where it is not there.

        Returns:
            the files.

        Raises:
            InputError: the folder is a file.
        """
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"Expected a folder for the appendix, but {folder} is a file; choose another name.")
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            f"{NAME}.tex": as_document(TITLE, self.sections),
            f"{SECTIONS}.tex": self.latex,
            f"{NAME}.md": self.markdown,
            f"{BIBLIOGRAPHY}.bib": self.bibtex,
        }
        for name, text in files.items():
            write_text(folder / name, text)
        return [folder / name for name in files]

    def __str__(self) -> str:
        return self.markdown

    def __repr__(self) -> str:
        return self.markdown

    def _repr_markdown_(self) -> str:
        return self.markdown


def appendix(runs: Sequence[Run]) -> Appendix:
    """The appendix of some runs: what they share is said once, numbers stand a table a run.

    Args:
        runs: finished runs, one or more.
    """
    sections = [
        data_and_models(runs),
        tests_and_definitions(runs),
        settings_used(runs),
        numbers_of(runs),
        statistics_used(runs),
        software_and_seeds(runs),
    ]
    return Appendix(tuple(section for section in sections if section is not None))
