"""The method appendix of a paper: what was tested, how, with what, and what it gave, in LaTeX and Markdown."""
