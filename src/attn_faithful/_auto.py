"""Makes transformers know our models and attention functions, without importing it before the user does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_CONFIGURATION = "transformers.models.auto.configuration_auto"
_MODELING = "transformers.models.auto.modeling_auto"
_TOKENIZATION = "transformers.models.auto.tokenization_auto"
_MODEL_BASE = "transformers.modeling_utils"  # imports modeling_auto itself, half-way through
_OUR_BASE = "attn_faithful.models.base"
_CLASSES = {
    "attn_faithful.models.pooled": "AttentionClassifier",
    "attn_faithful.models.bypass": "BypassClassifier",
    "attn_faithful.models.han": "HANClassifier",
}


def _register_configuration() -> None:
    from attn_faithful.models.bypass_configuration import BypassConfig
    from attn_faithful.models.configuration import AttentionClassifierConfig
    from attn_faithful.models.han_configuration import HANConfig

    for config in (AttentionClassifierConfig, BypassConfig, HANConfig):
        sys.modules[_CONFIGURATION].AutoConfig.register(config.model_type, config, exist_ok=True)


def register_model() -> None:
    """Register the models where the Auto classes and what they stand on are loaded; otherwise a later call will."""
    if not _loaded(_MODELING) or (_MODEL_BASE in sys.modules and not _loaded(_MODEL_BASE)):
        return
    base = sys.modules.get(_OUR_BASE)
    if base is not None and not hasattr(base, "EmbeddingClassifier"):
        return  # half-way through importing transformers; the modules that stand on it call this at their end
    auto = sys.modules[_MODELING].AutoModelForSequenceClassification
    for module, name in _CLASSES.items():
        if module in sys.modules and not hasattr(sys.modules[module], name):
            continue  # our own module is half-way through importing transformers, and calls this at its end
        try:
            model = getattr(import_module(module), name)
        except ImportError:
            if _loaded(_MODEL_BASE):
                raise
            return  # somebody above is half imported; the end of modeling_utils is the next chance
        auto.register(model.config_class, model, exist_ok=True)


def _register_tokenizer() -> None:
    """The tokenizer that hierarchical models are saved with; AutoTokenizer knows a class by its name."""
    configuration = import_module("attn_faithful.models.han_configuration").HANConfig
    tokenizer = import_module("attn_faithful.data.sentence_tokenizer").SentenceTokenizer
    sys.modules[_TOKENIZATION].AutoTokenizer.register(configuration, tokenizer, exist_ok=True)


def _register_attention() -> None:
    from attn_faithful.models.stock.interface import register

    register()


def _register_on_base() -> None:
    _register_attention()
    register_model()


_AFTER: dict[str, Callable[[], None]] = {
    _CONFIGURATION: _register_configuration,
    _TOKENIZATION: _register_tokenizer,
    _MODELING: register_model,
    _MODEL_BASE: _register_on_base,
}
_finished: set[str] = set()


def _loaded(name: str) -> bool:
    """Whether a module has run to its end."""
    module = sys.modules.get(name)
    if module is None:
        return False
    return name in _finished or not getattr(module.__spec__, "_initializing", False)


def register_when_loaded() -> None:
    """Register now what is loaded already, and the rest as soon as somebody imports it."""
    waiting = [name for name in _AFTER if not _loaded(name)]
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))
    for name, register in _AFTER.items():
        if name not in waiting:
            register()


class _Finder(MetaPathFinder):
    """Finds nothing itself: it lets the others find, and registers once the module has run."""

    def __init__(self, names: list[str]) -> None:
        self.waiting = names

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.waiting:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)  # type: ignore[arg-type]
            if spec is not None and spec.loader is not None:
                spec.loader = _Then(spec.loader, _AFTER[name])
                return spec
        return None


class _Then(Loader):
    """A module's own loader, and a step after it."""

    def __init__(self, loader: Any, after: Callable[[], None]) -> None:
        self.loader, self.after = loader, after

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _finished.add(module.__name__)
        self.after()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)
