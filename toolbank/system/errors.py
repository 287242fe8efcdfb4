"""What can go wrong, in words for people."""


class ToolbankError(Exception):
    """A run failed. The message says what, where, and what to do. Exit code 1."""

    exit_code = 1


class InputError(ToolbankError):
    """Something that the user gave (recipe, file, option, site) can't be used. Exit code 2."""

    exit_code = 2


class Waiting(ToolbankError):  # noqa: N818 - nothing is amiss
    """Replies of a batch are awaited. The message says what to do until then. Exit code 3."""

    exit_code = 3


class Interrupted(ToolbankError):  # noqa: N818 - it did what was asked
    """Ctrl-C or SIGTERM has ended it. The message says what is kept. Exit code 1."""
