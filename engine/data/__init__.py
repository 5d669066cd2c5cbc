"""Data sets as a trainer sees them: parts, preprocessing, augmentation, and batches from a background thread."""

from engine.data.dataset import DataSet, Part
from engine.data.loader import Batch, Loader, Slot
from engine.data.preprocessing import Preprocessing

__all__ = ["Batch", "DataSet", "Loader", "Part", "Preprocessing", "Slot"]
