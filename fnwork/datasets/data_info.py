"""What is known of a data set without its samples."""

from dataclasses import dataclass

from engine.data import DataSet


@dataclass(frozen=True)
class DataInfo:
    """What is known about a data set without loading its samples; the fields mean the same as in DataSet."""

    name: str
    task: str
    input_shape: tuple[int, ...]
    outputs: int
    classes: tuple[str, ...]
    train_samples: int
    validation_samples: int
    test_samples: int
    nbytes: int
    notes: tuple[str, ...] = ()


def data_info(data: DataSet) -> DataInfo:
    """That of a data set which is there."""
    sizes = (len(data.train), len(data.validation), len(data.test) if data.test else 0, data.nbytes)
    return DataInfo(data.name, data.task, data.input_shape, data.outputs, data.classes, *sizes, data.notes)
