"""Where the real data lie, beside the checkout; a test that needs them is skipped where they are missing."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    if not (SHARED / "data").is_dir():
        pytest.skip(f"needs the real data in {SHARED.name}/data beside the checkout")
    return SHARED
