"""The entry point: run a command, and end it on errors and Ctrl-C."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from types import FrameType

from toolbank.system.errors import Interrupted, ToolbankError
from toolbank.system.terminal import print_message


def main() -> None:
    """Run the command line; errors go to stderr without a traceback.

    SIGTERM ends a command as Ctrl-C does: clusters send it before a kill.
    """
    leave = _Leave()
    # Registered first, it runs last, after the exit handlers of libraries.
    atexit.register(leave)
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        _run()
    except (Interrupted, KeyboardInterrupt) as error:
        _be_over()
        _complain(str(error) or "stopped.")
        leave.code = Interrupted.exit_code
        sys.exit(leave.code)


def _run() -> None:
    # Imported here, so that Ctrl-C counts during the imports, too.
    from toolbank.system.extras import explain_namesake, is_by_namesake

    if told := explain_namesake():
        _complain(told)
    try:
        from toolbank.commands.app import make_app

        make_app()()
    except Interrupted:
        raise
    except ToolbankError as error:
        _be_over()
        _complain(str(error))
        sys.exit(error.exit_code)
    except ImportError as error:
        if not is_by_namesake(error):
            raise
        # The remedy was printed above.
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        _complain(f"{error.filename or 'the system'}: {error.strerror or error}.")
        sys.exit(1)


class _Leave:
    """If `code` is set, ends the process at once: torch can take half a minute to shut down."""

    def __init__(self) -> None:
        self.code: int | None = None

    def __call__(self) -> None:
        if self.code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def _be_over() -> None:
    """Ignore another Ctrl-C, which would print a traceback below the message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _complain(message: str) -> None:
    print_message(f"toolbank: {message}")


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do; in background jobs, shells ignore it."""
    handle = signal.getsignal(signal.SIGINT)
    if not callable(handle):
        raise KeyboardInterrupt
    handle(number, frame)
