"""Ctrl-C before, in and after a command: a sentence, exit code 1, and nothing to wait for."""

import subprocess
import sys

import pytest

# Stands for a library that is slow to be taken down, such as torch.
LIBRARY = """
import atexit, signal, sys
class Library:
    def __del__(self): print("taken down")
sys.library = Library()
"""
IN_A_COMMAND = f"""{LIBRARY}
import typer
from toolbank.commands.cli import main
invoke = typer.core.TyperGroup.invoke
def interrupted(self, context):
    atexit.register(print, "closed its files")
    atexit.register(signal.raise_signal, signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
typer.core.TyperGroup.invoke = interrupted
sys.argv = ["toolbank", "recipes"]
main()
"""


def stop(script):
    """Run a script that a signal stops."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert (done.stderr.strip(), done.returncode) == ("toolbank: stopped.", 1)
    return done


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_after_a_signal_files_are_closed_and_libraries_not_taken_down(signal):
    last = "    signal.raise_signal(signal.SIGINT)\n"
    done = stop(IN_A_COMMAND.replace(last, last.replace("SIGINT", signal)))
    assert done.stdout == "closed its files\n"


@pytest.mark.parametrize("module", ["typer", "toolbank.commands.run"])
def test_ctrl_c_while_the_command_line_is_read_is_told_as_at_any_time(module):
    done = stop(
        f"""
import signal, sys
class Early:
    def find_spec(self, name, *_):
        if name == "{module}":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Early())
from toolbank.commands.cli import main
sys.argv = ["toolbank", "run", "quickstart"]
main()
"""
    )
    assert not done.stdout
