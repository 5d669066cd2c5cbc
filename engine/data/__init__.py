"""Data sets: reading, splitting, preprocessing fitted on the train part, and batches from a background thread."""

from engine.data.dataset import DataInfo, DataSet, DataSettings, Part
from engine.data.loader import Batch, Loader, Slot
from engine.data.preprocessing import Preprocessing
from engine.data.registry import DATASETS, info, load

__all__ = [
    "DATASETS",
    "Batch",
    "DataInfo",
    "DataSet",
    "DataSettings",
    "Loader",
    "Part",
    "Preprocessing",
    "Slot",
    "info",
    "load",
]
