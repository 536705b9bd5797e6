"""ROAR and recursive ROAR: models are trained anew on texts without what a source calls important."""
