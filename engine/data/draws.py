"""Random draws of the data side: counter-based, so that no draw depends on what was drawn before it."""

import numpy as np

SPLIT, ORDER, AUGMENT, FLIP = 1, 2, 3, 4

_WORD = 2**64 - 1


def order(seed: int, epoch: int, samples: int, shuffle: bool) -> np.ndarray:
    """The samples in the order of an epoch."""
    return generator(seed, ORDER, epoch).permutation(samples) if shuffle else np.arange(samples)


def generator(seed: int, purpose: int, epoch: int = 0) -> np.random.Generator:
    """The generator of one purpose in one epoch; the same arguments always give the same stream."""
    philox = np.random.Philox(key=[seed & _WORD, purpose], counter=[0, 0, epoch & _WORD, 0])
    return np.random.Generator(philox)
