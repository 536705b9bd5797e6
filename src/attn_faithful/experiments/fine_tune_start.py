"""Where fine-tuning starts: a transformers model of a folder or the Hub, its tokenizer, and texts for its classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from attn_faithful._checks import InputError
from attn_faithful._seeds import seed_for
from attn_faithful.data.mask_token import with_mask_token
from attn_faithful.data.model_files import saved_tokenizer, saved_training_texts
from attn_faithful.data.settings import DataSettings
from attn_faithful.data.sources import TextData, load_texts
from attn_faithful.data.tokenizer_fit import check_tokenizer_fits
from attn_faithful.experiments.inputs import DataInput, labelled_texts
from attn_faithful.models.configurations import is_multi_label, note_masking
from attn_faithful.models.entry import as_stock_model, speaks_protocol
from attn_faithful.models.pretrained import Pretrained
from attn_faithful.models.stock.model import StockModel
from attn_faithful.training.trainer import seeded

_NEW_HEAD = "Or train a new head for the classes of the data: --set train.head=new."


@dataclass(frozen=True)
class FineTuneStart:
    """What every seed of a fine-tuning starts from.

    Attributes:
        pretrained: the model as it was read.
        tokenizer: the model's.
        texts: the data set, with labels in the order of the classes.
        multi_label: whether a text may have several labels.
        new_head: whether the head for classes is drawn anew.
        masking: whether, and how, texts are masked in training; see `FineTuneSettings`.
    """

    pretrained: Pretrained
    tokenizer: Any
    texts: TextData
    multi_label: bool
    new_head: bool
    masking: str | None = None

    @classmethod
    def read(cls, origin: str, data: DataSettings, head: str = "keep", masking: str | None = None) -> FineTuneStart:
        """Read and check model, tokenizer and texts.

        Args:
            origin: a folder or a Hub id.
            data: where the texts come from.
            head: "keep" the model's where it has one, or draw a "new" one.
            masking: as of `FineTuneSettings`; a tokenizer without a mask token is given one, and the model an embedding
                of it.

        Raises:
            InputError: what is wrong with the model, the tokenizer or the data; one of our own models; classes of the
                model that are not those of the data.
        """
        with seeded(0):  # weights that the folder lacks
            pretrained = Pretrained.read(origin)
        network = pretrained.network
        if speaks_protocol(network):
            raise InputError(
                f"{origin} is one of our own models, and --model fine-tunes those of transformers; leave --model out, "
                "and train trains a new one."
            )
        tokenizer = saved_tokenizer(origin, trust_remote_code=False)
        text_config = network.config.get_text_config()
        notes = _agree_on_padding(text_config, tokenizer, origin)
        check_tokenizer_fits(tokenizer, text_config.vocab_size, text_config.pad_token_id, text_config)
        network.training_texts = saved_training_texts(origin)
        new_head = head == "new" or not pretrained.has_head
        if new_head:
            texts = load_texts(data, training_texts=network.training_texts)
            multi_label = data.multi_label
        else:
            texts = _texts_of_classes(network, data)
            multi_label = is_multi_label(network.config)
        if masking is not None:
            tokenizer, of_mask = _with_mask(network, tokenizer)
            notes += of_mask
        texts.notes += notes
        return cls(pretrained, tokenizer, texts, multi_label, new_head, masking)

    def model(self, seed: int) -> StockModel:
        """A classifier to be trained: a copy of the pretrained weights, a new head drawn by the seed."""
        labels = self.texts.label_names
        with seeded(seed_for(seed, "weights") % 2**31):
            if self.new_head:
                network = self.pretrained.with_new_head(labels, self.multi_label)
            else:
                network = self.pretrained.as_it_is(labels)
        note_masking(network.config, self.masking)
        return as_stock_model(network)


def _texts_of_classes(network: Any, data: DataSettings) -> TextData:
    """The texts with labels by the model's classes.

    Raises:
        InputError: what is wrong with the data, or labels that are none of the classes.
    """
    try:
        return labelled_texts(as_stock_model(network), DataInput(data))
    except InputError as error:
        load_texts(data)  # raises what is wrong with the data themselves
        raise InputError(f"{error} {_NEW_HEAD}") from None


def _agree_on_padding(config: Any, tokenizer: Any, origin: str) -> list[str]:
    """Give model and tokenizer one padding token where they lack one, as GPT-2 does; a note says which.

    Raises:
        InputError: neither has one, nor a token that ends texts.
    """
    if config.pad_token_id is None and tokenizer.pad_token_id is None:
        if tokenizer.eos_token is None:
            raise InputError(
                f"{origin} has no padding token, and none that ends a text to stand for it; give its tokenizer one "
                "(tokenizer.pad_token = ...) and save it."
            )
        tokenizer.pad_token = tokenizer.eos_token
        config.pad_token_id = tokenizer.pad_token_id
        return [f"The model has no padding token: batches are padded with {tokenizer.eos_token!r}."]
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    elif tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(config.pad_token_id)
    return []


def _with_mask(network: Any, tokenizer: Any) -> tuple[Any, list[str]]:
    """The tokenizer with a mask token; where it had none the model embeds a new one, and a note says so."""
    masking = with_mask_token(tokenizer)
    if masking is tokenizer:
        return tokenizer, []
    table = network.get_input_embeddings().weight
    if len(masking) > len(table):
        mean = table.detach().mean(0)
        network.resize_token_embeddings(len(masking), mean_resizing=False)
        with torch.no_grad():
            network.get_input_embeddings().weight[masking.mask_token_id] = mean
    return masking, [f"The model has no mask token: {masking.mask_token!r} is added, and learned in training."]
