"""The tiny model of these tests."""

import pytest

from tests.explanations.tiny import tiny_bert


@pytest.fixture(scope="module")
def bert():
    """The model and its tokenizer."""
    return tiny_bert()
