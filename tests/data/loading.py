"""Data sets with their settings as keyword arguments."""

from attn_faithful.data.settings import DataSettings
from attn_faithful.data.sources import load_texts


def load(source, *, rows=None, purpose="train", label_names=None, training_texts=None, faults=None, **settings):
    """`load_texts`; `settings` are fields of `DataSettings`."""
    return load_texts(
        DataSettings(source=str(source), **settings),
        rows=rows,
        purpose=purpose,
        label_names=label_names,
        training_texts=training_texts,
        faults=faults,
    )
