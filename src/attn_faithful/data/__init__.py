"""Texts, labels, tokenizers and word vectors."""
