"""Recipes and the stages that carry them out."""
