"""What needs a card, and is skipped without one: python -m pytest tests/gpu"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))  # the same tests run there without a card


def obstacle() -> str:
    """Why no card can be used, or ''."""
    try:
        import cupy

        cupy.arange(4).sum().item()
    except Exception as error:  # CuPy raises many kinds
        return f"no card: {error}".splitlines()[0]
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = obstacle() if ours else ""
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Puts a real card in the place of the stand-in."""
    import cupy
    from cuda_on_cpu import both_ways

    monkeypatch.setattr(both_ways, "transfer", cupy.asarray)
    yield
    cupy.get_default_memory_pool().free_all_blocks()
