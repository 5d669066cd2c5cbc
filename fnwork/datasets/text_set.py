"""A text as a data set: the next character, from those before it.

Each of the last characters is a category, as if it were a column of a table. The features are made when they are asked
for: written out they would take thousands of times the text's own room.
"""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np

from engine.data import DataSet, Part, Preprocessing
from engine.errors import InputError
from fnwork.datasets.columns import Column
from fnwork.datasets.data_info import DataInfo, data_info
from fnwork.datasets.divide import Parts, data_set
from fnwork.datasets.settings import DataSettings, Progress, silent
from fnwork.datasets.split import validation_count
from fnwork.files import reason
from fnwork.text import harmless

CONTEXT = 16
MOST_CHARACTERS = 255  # so that each fits a byte, with one number left for what is not known


class Windows:
    """Rows (samples, CONTEXT * characters) of 0 and 1, float32: which character stands at each place before a sample's
    own. A character that is not known is all zeros."""

    dtype = np.dtype(np.float32)

    def __init__(self, numbers: np.ndarray, starts: np.ndarray, characters: int):
        """`numbers`: each character's, uint8; `starts`: where the windows begin."""
        self._numbers, self._starts = numbers, starts
        self._one_hot = np.eye(characters + 1, characters, dtype=np.float32)
        self.shape = (len(starts), CONTEXT * characters)

    @property
    def nbytes(self) -> int:
        """Bytes of the text and of the windows' places in it."""
        return self._numbers.nbytes + self._starts.nbytes

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, key: int | slice | np.ndarray) -> np.ndarray:
        places = self._starts[key][..., None] + np.arange(CONTEXT)
        return self._one_hot[self._numbers[places]].reshape(*places.shape[:-1], self.shape[1])


def files(settings: DataSettings) -> tuple[Path, ...]:
    """The text's file, none for the one that comes with Python."""
    return (Path(settings.path),) if settings.path else ()


def info(settings: DataSettings, seed: int) -> DataInfo:
    """Which characters there are, and how many: that takes reading the text."""
    return data_info(load(settings, seed))


def load(settings: DataSettings, seed: int, progress: Progress = silent) -> DataSet:
    """Read a text; its end is the validation part, so that no window reaches from one part into the other."""
    text = read(Path(settings.path)) if settings.path else _bundled()
    where = harmless(settings.path) if settings.path else "pydoc_data.topics"
    begin = len(text) - validation_count(len(text), settings.validation)
    vocabulary = tuple(sorted(character for character, _ in Counter(text[:begin]).most_common(MOST_CHARACTERS)))
    if len(vocabulary) < 2:
        raise InputError(f"{where}: the part to train on holds {len(vocabulary)} different characters; expected more")
    number_of = {character: number for number, character in enumerate(vocabulary)}
    numbers = np.array([number_of.get(character, len(vocabulary)) for character in text], np.uint8)
    parts = Parts(_part(where, numbers[:begin], len(vocabulary)), _part(where, numbers[begin:], len(vocabulary)))
    columns = tuple(Column(f"character {place - CONTEXT}", categories=vocabulary) for place in range(CONTEXT))
    shape = (CONTEXT * len(vocabulary),)
    preprocessing = Preprocessing("classification", shape, vocabulary, columns=columns)
    notes = []
    if unknown := int((numbers == len(vocabulary)).sum()):
        notes.append(
            f"{unknown:,} characters are not among the {len(vocabulary)} that are learnt; none is to be guessed"
        )
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return data_set(settings, parts, preprocessing, digest, tuple(notes))


def _part(where: str, numbers: np.ndarray, characters: int) -> Part:
    """All windows whose next character is known."""
    places = np.flatnonzero(numbers[CONTEXT:] < characters)
    if not len(places):
        raise InputError(
            f"{where}: too short: of its {len(numbers):,} characters to train or to validate on, "
            f"each sample takes {CONTEXT + 1}"
        )
    return Part(Windows(numbers, places, characters), numbers[CONTEXT:][places].astype(np.int32))


def read(path: Path) -> str:
    """The text of a file; InputError with the line that is not UTF-8."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{harmless(path)}, line {line}: the text is not UTF-8; save it as UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        said = reason(error) if isinstance(error, OSError) else error
        raise InputError(f"{harmless(path)}: cannot be read: {said}") from None
    return text.replace("\r\n", "\n")


def _bundled() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise InputError("data.path: this Python came without its documentation topics; name a text file") from None
    return "\n".join(topics[name] for name in sorted(topics))
