"""Slow loops written from the papers' formulas, numpy and scipy only: what the fast code is compared with."""
