"""Data sets as a trainer sees them: parts, preprocessing, and batches from a background thread."""

from engine.data.dataset import DataSet, Part
from engine.data.loader import Augment, Batch, Loader, Slot
from engine.data.preprocessing import Preprocessing

__all__ = ["Augment", "Batch", "DataSet", "Loader", "Part", "Preprocessing", "Slot"]
