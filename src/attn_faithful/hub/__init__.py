"""The Hub, and the module cache of evaluate."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from attn_faithful._checks import InputError, check_choice

_MODULES = Path(__file__).parents[1] / "evaluate_modules"


def metric_names() -> list[str]:
    """Names of the metrics that ``evaluate.load`` can find after :func:`install_metrics`."""
    return sorted(script.stem for script in _MODULES.glob("*/*.py") if script.stem == script.parent.name)


def install_metrics(names: Iterable[str] | None = None) -> list[Path]:
    """Put the package's metrics into evaluate's module cache, so that ``evaluate.load("attefa")`` works anywhere.

    Neither this call nor loading the metric uses the network. A second call updates the code. A folder of the metric's
    name in the working directory, or a canonical metric of that name on the Hub, takes precedence.

    Args:
        names: of the metrics; all by default.

    Returns:
        the files in the cache that will be loaded, one a metric.

    Raises:
        InputError: an unknown name, or a cache of modules that cannot be written.
        RuntimeError: evaluate's cache does not work as it did; the message says what to use instead.

    Example:
        >>> {"attefa", "attention_permutation"} <= set(metric_names())
        True
    """
    known = metric_names()
    chosen = known
    if names is not None:
        chosen = [check_choice("metric", name, known) for name in names]
    return [_into_evaluate_cache(name, _MODULES / name / f"{name}.py") for name in chosen]


def _into_evaluate_cache(name: str, script: Path) -> Path:
    """Copy a script to the folder that evaluate searches for a bare name that is not on the Hub.

    evaluate has no public entry point for this; the private call is the one that it makes itself after a download.
    """
    import evaluate
    from evaluate import loading

    try:
        modules = loading.init_dynamic_modules()
        module_path, _ = loading._create_importable_file(
            local_path=str(script),
            local_imports=[],
            additional_files=[],
            dynamic_modules_path=modules,
            module_namespace="metrics",
            name=f"evaluate-metric/{name}",
            download_mode=loading.DownloadMode.REUSE_DATASET_IF_EXISTS,
        )
        installed = Path(modules).parent.joinpath(*module_path.split(".")).with_suffix(".py")
        # evaluate takes the newest file; code that went back to an earlier state has an old one in the cache already.
        os.utime(installed)
        cached = loading.CachedEvaluationModuleFactory(f"evaluate-metric--{name}").get_module()
    except (AttributeError, TypeError, ValueError, FileNotFoundError) as error:
        raise _changed(evaluate.__version__, script, str(error)) from error
    except OSError as error:
        raise InputError(
            f"evaluate's cache of modules cannot be written ({error}); set HF_MODULES_CACHE to a folder that can, or "
            "install the metrics where it is made."
        ) from error
    if cached.module_path != module_path:
        raise _changed(evaluate.__version__, script, f"it would load {cached.module_path}")
    return installed


def _changed(version: str, script: Path, why: str) -> RuntimeError:
    return RuntimeError(
        f"Could not install {script.stem!r} into the module cache of evaluate {version}, which works otherwise than "
        f'expected ({why}); load the metric by its path instead: evaluate.load("{script.parent}").'
    )
