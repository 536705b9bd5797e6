"""Readers of files and of data in memory: rows of text and labels, with located errors."""
