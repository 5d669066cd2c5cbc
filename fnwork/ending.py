"""How a process is asked to end from outside."""

import signal

# Ctrl-C, a request, a terminal that goes away, Ctrl-Break of Windows: those that this system has.
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
