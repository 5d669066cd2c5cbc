"""Reading data sets: files become the parts that the engine trains on, split, and with their preprocessing."""

from fnwork.datasets.registry import DATASETS, info, load
from fnwork.datasets.settings import DataSettings, Progress, silent

__all__ = ["DATASETS", "DataSettings", "Progress", "info", "load", "silent"]
