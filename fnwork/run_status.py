"""What readers rely on in a run's `status.json`, which other programs and full disks may have damaged."""

from collections.abc import Callable, Mapping
from typing import Any

_LATEST = 1e11  # seconds since 1970: beyond any clock


def wrong_keys(status: Mapping[str, Any]) -> list[str]:
    """The keys of a status whose values are of the wrong kind."""
    return [key for key, is_right in _RIGHT.items() if key in status and not is_right(status[key])]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LATEST


_RIGHT: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("state", "name", "spec", "notes", "message", "host"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("epoch", "epochs", "step", "pid", "peak_bytes"), _is_count),
    **dict.fromkeys(("started", "seconds", "heartbeat", "process_started"), _is_time),
    **dict.fromkeys(("results", "best"), lambda value: isinstance(value, dict)),
    "tags": lambda value: isinstance(value, list),
}
