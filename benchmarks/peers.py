"""What a user would write for a transformers classifier in place of ours: a batched loop, Captum, interpreto.

The loop runs 32 shortened or altered texts a forward, sorted by length over all texts of a run, in inference mode with
the attention that the model comes with. Captum runs a text at a time and, where it can, batches of 32. interpreto is an
optional extra (``pip install attn-faithful[peers]``). ferret asks for transformers below 5 and numpy below 2, and so
cannot stand beside attn_faithful.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import captum.attr
import torch
from measure import AbsentError
from minilm import StockSetup, Text
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

ROWS = 32
SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)


class Loop:
    """The plain batched loop over a model's texts."""

    def __init__(self, setup: StockSetup) -> None:
        self.model = setup.model.model
        self.embedding = self.model.get_input_embeddings()
        self.texts: list[Text] = setup.texts
        self.mask_id = setup.tokenizer.mask_token_id

    @torch.inference_mode()
    def probabilities(self, rows: Sequence[list[int]], zeroed: Sequence[list[int]] | None = None) -> Tensor:
        """Probabilities (R, C) of rows of ids.

        Args:
            zeroed: of each row the places whose embedding becomes zero; None for none.
        """
        lengths = torch.tensor([len(row) for row in rows])
        found = torch.empty(len(rows), self.model.config.num_labels)
        for part in lengths.argsort(stable=True).split(ROWS):
            chosen = part.tolist()
            ids, mask = padded([rows[row] for row in chosen])
            if zeroed is None:
                logits = self.model(input_ids=ids, attention_mask=mask).logits
            else:
                embedded = self.embedding(ids)
                for place, row in enumerate(chosen):
                    embedded[place, zeroed[row]] = 0
                logits = self.model(inputs_embeds=embedded, attention_mask=mask).logits
            found[part] = logits.softmax(-1)
        return found

    def _changes(self, whole: Tensor, altered: Tensor) -> list[Tensor]:
        """|Change of the predicted class's probability| of each text's altered ones (R, C), in order of the texts."""
        parts = altered.split([len(text.items) for text in self.texts])
        changes = []
        for before, after in zip(whole, parts, strict=True):
            target = before.argmax()
            changes.append((before[target] - after[:, target]).abs())
        return changes

    def leave_one_out(self) -> list[Tensor]:
        """The change without each word, (words,) a text."""
        shortened = [text.without(item) for text in self.texts for item in range(len(text.items))]
        found = self.probabilities([*(text.ids for text in self.texts), *shortened])
        return self._changes(found[: len(self.texts)], found[len(self.texts) :])

    def masked(self) -> list[Tensor]:
        """The change with each word's pieces replaced by the mask, (words,) a text."""
        replaced = []
        for text in self.texts:
            for places in text.items:
                gone = set(places)
                replaced.append([self.mask_id if place in gone else token for place, token in enumerate(text.ids)])
        found = self.probabilities([*(text.ids for text in self.texts), *replaced])
        return self._changes(found[: len(self.texts)], found[len(self.texts) :])

    def occlusion(self) -> list[Tensor]:
        """The change with each word's embeddings zero, (words,) a text."""
        rows = [text.ids for text in self.texts for _ in text.items]
        zeroed = [places for text in self.texts for places in text.items]
        whole = self.probabilities([text.ids for text in self.texts])
        return self._changes(whole, self.probabilities(rows, zeroed))

    def gradients(self) -> list[Tensor]:
        """|Gradient times embedding| summed over each word, (words,) a text."""
        found: dict[int, Tensor] = {}
        for part in by_length(self.texts):
            ids, mask = padded([self.texts[row].ids for row in part])
            embedded = self.embedding(ids).detach().requires_grad_()
            chances = self.model(inputs_embeds=embedded, attention_mask=mask).logits.softmax(-1)
            (gradient,) = torch.autograd.grad(chances.amax(-1).sum(), embedded)
            products = (gradient * embedded.detach()).sum(-1)
            for row, values in zip(part, products, strict=True):
                found[row] = by_word(self.texts[row], values).abs()
        return [found[row] for row in range(len(self.texts))]

    def erasure(self) -> Tensor:
        """Comprehensiveness and sufficiency of four rankings, leave-one-out with them: differences (rows,)."""
        one_out, gradients = self.leave_one_out(), self.gradients()
        attention = self.attention()
        rows: list[list[int]] = []
        texts: list[int] = []
        for number, text in enumerate(self.texts):
            count = len(text.items)
            for values in (attention[number], gradients[number], one_out[number], torch.rand(count)):
                order = values.argsort(descending=True, stable=True).tolist()
                for share in SHARES:
                    size = math.ceil(share * count)
                    rows += [text.keeping(order[size:]), text.keeping(order[:size])]
                    texts += [number, number]
        whole = self.probabilities([text.ids for text in self.texts])
        found = self.probabilities(rows)
        target = whole.argmax(-1)[texts]
        rank = torch.arange(len(rows))
        return whole[texts, target] - found[rank, target]

    @torch.inference_mode()
    def attention(self) -> list[Tensor]:
        """What the first token's heads of the last layer give each word, summed over pieces, (words,) a text."""
        implementation = self.model.config._attn_implementation
        self.model.set_attn_implementation("eager")  # the only one that gives its attention
        found: dict[int, Tensor] = {}
        for part in by_length(self.texts):
            ids, mask = padded([self.texts[row].ids for row in part])
            heads = self.model(input_ids=ids, attention_mask=mask, output_attentions=True).attentions[-1]
            for row, values in zip(part, heads[:, :, 0].mean(1), strict=True):
                found[row] = by_word(self.texts[row], values)
        self.model.set_attn_implementation(implementation)
        return [found[row] for row in range(len(self.texts))]


def padded(rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    """Ids (R, T) and their mask."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()


def by_length(texts: Sequence[Text]) -> list[list[int]]:
    """The numbers of texts sorted by length, 32 together."""
    lengths = torch.tensor([len(text.ids) for text in texts])
    return [part.tolist() for part in lengths.argsort(stable=True).split(ROWS)]


def by_word(text: Text, values: Tensor) -> Tensor:
    """Values of pieces (T,) summed over each word."""
    return torch.stack([values[places].sum() for places in text.items])


class Captum:
    """Captum's methods on the embeddings of a model's texts.

    Args:
        batched: whether 32 texts are run together where the method can.
    """

    def __init__(self, setup: StockSetup, batched: bool = False) -> None:
        self.model = setup.model.model
        self.embedding = self.model.get_input_embeddings()
        self.texts = setup.texts
        rows = range(len(self.texts))
        self.parts = by_length(self.texts) if batched else [[row] for row in rows]

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        return self.model(inputs_embeds=embedded, attention_mask=mask).logits.softmax(-1)

    def _each(self, method: Any) -> list[Tensor]:
        """What ``method(embedded, mask, target, rows)`` gives each piece, (words,) a text."""
        found: dict[int, Tensor] = {}
        for part in self.parts:
            ids, mask = padded([self.texts[row].ids for row in part])
            with torch.no_grad():
                embedded = self.embedding(ids)
                target = self.forward(embedded, mask).argmax(-1)
            values = method(embedded, mask, target, part)  # (R, T)
            for row, of_row in zip(part, values, strict=True):
                found[row] = by_word(self.texts[row], of_row.detach()).abs()
        return [found[row] for row in range(len(self.texts))]

    def gradients(self) -> list[Tensor]:
        """Input times gradient."""
        method = captum.attr.InputXGradient(self.forward)

        def run(embedded: Tensor, mask: Tensor, target: Tensor, part: list[int]) -> Tensor:
            embedded.requires_grad_()
            return method.attribute(embedded, target=target, additional_forward_args=(mask,)).sum(-1)

        return self._each(run)

    def integrated_gradients(self, steps: int) -> list[Tensor]:
        """Integrated gradients from a text whose words' embeddings are zero."""
        method = captum.attr.IntegratedGradients(self.forward)

        def run(embedded: Tensor, mask: Tensor, target: Tensor, part: list[int]) -> Tensor:
            baseline = embedded.clone()
            for place, row in enumerate(part):
                baseline[place, [piece for item in self.texts[row].items for piece in item]] = 0
            several = {"internal_batch_size": ROWS * 2} if len(part) > 1 else {}
            return method.attribute(
                embedded, baseline, target=target, additional_forward_args=(mask,), n_steps=steps, **several
            ).sum(-1)

        return self._each(run)

    def occlusion(self) -> list[Tensor]:
        """Feature ablation of each word's embeddings, 32 at once."""
        method = captum.attr.FeatureAblation(self.forward)

        @torch.no_grad()
        def run(embedded: Tensor, mask: Tensor, target: Tensor, part: list[int]) -> Tensor:
            (row,) = part
            items = self.texts[row].items
            feature = torch.full(embedded.shape[:2], len(items))
            for item, places in enumerate(items):
                feature[0, places] = item
            change = method.attribute(
                embedded,
                target=target,
                additional_forward_args=(mask,),
                feature_mask=feature[:, :, None].expand_as(embedded),
                perturbations_per_eval=ROWS,
            )[:, :, 0]
            # each piece has its word's change: one of them is taken
            first = torch.zeros_like(change)
            first[0, [places[0] for places in items]] = change[0, [places[0] for places in items]]
            return first

        return self._each(run)


class Interpreto:
    """interpreto's methods on a model's texts.

    Raises:
        AbsentError: it is not installed.
    """

    def __init__(self, setup: StockSetup) -> None:
        if find_spec("interpreto") is None:
            raise AbsentError("interpreto is not installed")
        self.package = importlib.import_module("interpreto")
        self.modes = importlib.import_module("interpreto.attributions").InferenceModes
        self.setup = setup

    def _run(self, method: str, **settings: Any) -> Any:
        model, tokenizer = self.setup.model.model, self.setup.tokenizer
        made = getattr(self.package, method)(
            model, tokenizer, inference_mode=self.modes.SOFTMAX, batch_size=ROWS, **settings
        )
        return made(list(self.setup.strings))

    def masked(self) -> Any:
        """Words replaced by the mask."""
        return self._run("Occlusion", granularity=self.package.Granularity.WORD)

    def gradients(self) -> Any:
        """Input times gradient."""
        return self._run("Saliency", input_x_gradient=True)

    def integrated_gradients(self, steps: int) -> Any:
        """Integrated gradients."""
        return self._run("IntegratedGradients", n_perturbations=steps)
