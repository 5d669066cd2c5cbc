"""Every operation on a card against the reference on the CPU: the tests of the stand-in, on the real thing."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import test_ops_cuda

from engine.ops.cuda import cudnn

random = test_ops_cuda.random
globals().update({name: test for name, test in vars(test_ops_cuda).items() if name.startswith("test_")})


@pytest.fixture(autouse=True, params=["columns", "cudnn"])
def convolutions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Once without cuDNN, and once with it where it is installed."""
    if request.param == "columns":
        monkeypatch.setitem(sys.modules, "cudnn", None)
    else:
        pytest.importorskip("cudnn")
    for each in (cudnn._plan, cudnn._library):
        each.cache_clear()
    yield
    cudnn._plan.cache_clear()
