"""The errors of toolbank, whose messages are for people."""


class ToolbankError(Exception):
    """Something failed. The message says what, where, and what to do. Exit code 1."""

    exit_code = 1


class InputError(ToolbankError):
    """An input of the user (recipe, file, option, site) can't be used. Exit code 2."""

    exit_code = 2


class ReplyPendingError(ToolbankError):
    """A batch is waiting for replies. The message says what to do until then. Exit code 3."""

    exit_code = 3


class InterruptedByUserError(ToolbankError):
    """Ctrl-C or SIGTERM stopped a command. The message says what is kept. Exit code 1."""
