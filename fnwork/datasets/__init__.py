"""Reading data sets: files become the parts that the engine trains on, split, and with their preprocessing."""

from fnwork.datasets.registry import DATASETS, info, load
from fnwork.datasets.settings import DataSettings

__all__ = ["DATASETS", "DataSettings", "info", "load"]
