"""A command as a user types it, without the start of a process."""

import os
import signal
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from unittest import mock

from toolbank.commands import cli


def sets(*settings):
    return [part for setting in settings for part in ("--set", setting)]


def toolbank(*arguments, cwd, **environment):
    """The command, called within this process: it starts in no time."""
    out, err = StringIO(), StringIO()
    with (
        chdir(cwd),
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.dict(os.environ, {"COLUMNS": "80", **environment}),
        mock.patch.object(sys, "argv", ["toolbank", *map(str, arguments)]),
        # A stopped command would end the tests' own process, with its exit code.
        mock.patch.object(cli, "atexit"),
    ):
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            # An error ends the process, which hears no Ctrl-C from then on.
            signal.signal(signal.SIGINT, signal.default_int_handler)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def do(cwd, *arguments, code=0, **environment):
    """Run a command, which ends with this code."""
    done = toolbank(*arguments, cwd=cwd, **environment)
    assert done.returncode == code, done.stderr
    return done
