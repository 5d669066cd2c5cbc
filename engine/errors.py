"""The two kinds of failure that are explained to the user instead of shown as a traceback."""


class InputError(ValueError):
    """Something the user, their files or their machine can cause; the message is ready to print."""


class RunError(RuntimeError):
    """The run failed for a reason the message explains (memory budget, repeated non-finite values, ...)."""
