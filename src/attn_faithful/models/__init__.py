"""Attention classifiers and the protocol that every test speaks."""
