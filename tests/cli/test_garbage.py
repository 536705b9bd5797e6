"""Python's search for garbage is put off while libraries are imported."""

import gc

import pytest

from attn_faithful._garbage import uncollected


@pytest.mark.parametrize("was_on", [True, False])
def test_the_search_is_off_inside_and_as_before_outside(was_on):
    before = gc.isenabled()
    (gc.enable if was_on else gc.disable)()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert gc.isenabled() == was_on
    finally:
        (gc.enable if before else gc.disable)()
