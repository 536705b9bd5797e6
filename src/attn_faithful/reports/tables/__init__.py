"""Tables: from records to rows of text for a terminal, Markdown, LaTeX or CSV."""
