"""Convolution by cuDNN, on a stand-in for its module: when it is asked, and with what."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import test_ops_cuda
from cuda_on_cpu import build, stand_in
from cuda_on_cpu.fake_cudnn import pygraph

pytestmark = pytest.mark.skipif(bool(build.obstacle()), reason=build.obstacle() or "-")

random = test_ops_cuda.random


@pytest.fixture(autouse=True)
def asked() -> Iterator[list[str]]:
    """The kinds of convolution that were asked for."""
    with stand_in.installed(with_cudnn=True):
        pygraph.executed.clear()
        yield pygraph.executed


@pytest.mark.parametrize("shape", test_ops_cuda.CONVOLUTIONS, ids=str)
def test_images_in_half_precision(random, asked, shape) -> None:
    """What it has no algorithm for the kernels do."""
    test_ops_cuda.convolve_all(random, shape, np.float16, np.float16)
    assert set(asked) == {"conv_fprop", "conv_dgrad"} | ({"conv_wgrad"} if shape[3] % pygraph.pack == 0 else set())


@pytest.mark.parametrize("precisions", [(np.float32, np.float32), (np.float16, np.float32), (np.float32, np.float16)])
def test_other_precisions_are_not_for_it(random, asked, precisions) -> None:
    test_ops_cuda.convolve_all(random, test_ops_cuda.CONVOLUTIONS[0], *precisions)
    assert not asked


def test_linear_products_are_not_for_it(random, asked) -> None:
    test_ops_cuda.test_linear(random, (70, 24, 16), np.float16)
    assert not asked


def test_a_module_without_its_library_is_none(random, asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise RuntimeError("libcudnn.so.9: cannot open shared object file")

    import cudnn

    assert isinstance(cudnn, ModuleType)
    monkeypatch.setattr(cudnn, "create_handle", missing)
    test_ops_cuda.convolve_all(random, test_ops_cuda.CONVOLUTIONS[1], np.float16, np.float16)
    assert not asked
