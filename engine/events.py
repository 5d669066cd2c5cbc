"""What training tells: one frozen record an event, as a line of JSON can hold it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """`kind` as in the list of events, `t` seconds since the start, and the kind's own values."""

    kind: str
    t: float
    values: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> dict[str, Any]:
        """The event as one flat dictionary."""
        return {"kind": self.kind, "t": self.t, **self.values}
