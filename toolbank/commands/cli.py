"""The command line: how it begins, and how errors and Ctrl-C end it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from types import FrameType

from toolbank.system.errors import InterruptedByUserError, ToolbankError
from toolbank.system.terminal import print_message


def main() -> None:
    """Run the command line; errors for people go to stderr, without a traceback.

    SIGTERM, as a cluster sends it before a kill, ends a command as Ctrl-C does.
    """
    leave = _Leave()
    # What is registered first is called last: after what libraries have to write.
    atexit.register(leave)
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        _run()
    except (InterruptedByUserError, KeyboardInterrupt) as error:
        _be_over()
        _complain(str(error) or "stopped.")
        leave.code = InterruptedByUserError.exit_code
        sys.exit(leave.code)


def _run() -> None:
    try:
        # Imports take a moment, in which Ctrl-C ends it as at any other time.
        from toolbank.commands.app import make_app

        make_app()()
    except InterruptedByUserError:
        raise
    except ToolbankError as error:
        _be_over()
        _complain(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        _complain(f"{error.filename or 'the system'}: {error.strerror or error}.")
        sys.exit(1)


class _Leave:
    """Ends the process without taking its libraries down, where `code` is set.

    Who has stopped a training waits for up to half a minute while torch is; nothing is lost by
    that, since all that is written was closed.
    """

    def __init__(self) -> None:
        self.code: int | None = None

    def __call__(self) -> None:
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def _be_over() -> None:
    """Let one more Ctrl-C put no traceback below the message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _complain(message: str) -> None:
    print_message(f"toolbank: {message}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do here; a shell has it ignored in what it runs beside itself."""
    handle = signal.getsignal(signal.SIGINT)
    if not callable(handle):
        raise KeyboardInterrupt
    handle(number, frame)
