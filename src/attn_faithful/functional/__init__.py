"""Tensors in, per-example tensors out: the mathematics, without models or files."""
