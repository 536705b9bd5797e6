"""Which attention of a model passes by transformers' attention interface, found out in one forward."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attn_faithful._checks import InputError
from attn_faithful.models.stock.interface import Trace
from attn_faithful.models.stock.layers import patched
from attn_faithful.models.supported import LIKE

_NAMED = re.compile(r"Attention|Attn|SelfAtt")
_CALLED = {"attn", "attention", "self_attn", "self_attention", "cross_attn", "encoder_attn", "crossattention"}
_TORCHS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
_WEIGHING = ("softmax", "log_softmax", "scaled_dot_product_attention", "multi_head_attention_forward")


class Coverage:
    """Watches one forward for attention that does not ask the attention interface.

    Three things are taken for it: a softmax over the tokens of each token, outside of the interface; a module that is
    called attention and in which nothing asks; and a block of somebody's own in which nothing asks, where others do.

    Args:
        model: a transformers model.
        blocks: the members of its stacks.
        tokens: of each text in the forward.
    """

    def __init__(self, model: nn.Module, blocks: list[nn.Module], tokens: int) -> None:
        self.model, self.tokens = model, tokens
        self.names = {module: name for name, module in model.named_modules()}
        self.blocks = set(blocks)
        self.path: list[nn.Module] = []  # the modules at work, the innermost last
        self.silent: list[nn.Module] = []  # hold attention, and nothing in them asked
        self.weighed: list[nn.Module] = []  # weighed tokens by themselves

    @contextmanager
    def watching(self, trace: Trace) -> Iterator[None]:
        """Watch the one forward inside, which is run with this trace."""

        def watched(module: nn.Module) -> Callable[..., Any]:
            forward = module.forward

            def called(*args: Any, **kwargs: Any) -> Any:
                first = trace.count
                self.path.append(module)
                try:
                    return forward(*args, **kwargs)
                finally:
                    self.path.pop()
                    if trace.count == first and self._holds_attention(module):
                        self.silent.append(module)

            return called

        with patched(self.names, watched), _Weighing(self, trace):
            yield

    def _holds_attention(self, module: nn.Module) -> bool:
        origin = type(module).__module__
        if origin.startswith("torch."):
            return isinstance(module, _TORCHS)
        if module in self.blocks and not origin.startswith("transformers."):
            return True
        if _NAMED.search(type(module).__name__):
            return True
        matrices = sum(weight.dim() > 1 for weight in module.parameters())  # queries' and keys' at least
        _, _, name = self.names[module].rpartition(".")
        return matrices > 1 and name.lower() in _CALLED

    def check(self, trace: Trace) -> None:
        """Raise where attention passes by the interface, with the names of its layers."""
        asking = [self.names[call.module] for call in trace.seen.values() if call.module in self.names]
        within_asking = tuple(f"{name}." for name in asking)
        suspects = dict.fromkeys([*self.weighed, *reversed(self.silent)])  # of the silent the outermost first
        outside: list[str] = []
        for module in suspects:
            name = self.names[module]
            within_outside = tuple(f"{each}." for each in outside)
            known = name in outside or name.startswith(within_outside)
            if not known and not name.startswith(within_asking):
                outside.append(name)
        if outside:
            shown = ", ".join(self._described(name) for name in outside[:3])
            more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
            raise InputError(
                f"{type(self.model).__name__} uses transformers' attention interface in part only: past it goes "
                f"{shown}{more}, so that attention cannot be read and replaced in all layers; in {LIKE} "
                "all of it does."
            )

    def _described(self, name: str) -> str:
        """A module's name and class."""
        return f"{name} ({type(self.model.get_submodule(name)).__name__})"


class _Weighing(TorchFunctionMode):
    """Notes the module at work where tokens are weighed for each token, outside of the interface."""

    def __init__(self, coverage: Coverage, trace: Trace) -> None:
        super().__init__()
        self.coverage, self.trace = coverage, trace

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        outside = bool(self.coverage.path) and not self.trace.inside
        if outside and name in _WEIGHING and self._weighs_tokens(name, args, result):
            self.coverage.weighed.append(self.coverage.path[-1])
        return result

    def _weighs_tokens(self, name: str, args: Any, result: Any) -> bool:
        """Whether a call of torch gave weights of the tokens for each token, or used some."""
        size = self.coverage.tokens
        tensors = [value for value in (*args, result) if isinstance(value, Tensor) and value.dim() > 2]
        for value in tensors:
            if value is result and value.shape[-2:] == (size, size):
                return True
        # torch's own attention has the tokens on an axis of what it gets and gives
        return "softmax" not in name and any(value.shape[-2] == size for value in tensors)
