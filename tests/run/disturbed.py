"""A command in a process of its own, which a signal meets at a chosen moment.

The processes are forks of one that has imported the command already, so that one starts at once.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from toolbank.commands.cli import main

# What a run imports before it evaluates anything.
_LIBRARIES = ("aiohttp", "jinja2", "jsonschema", "numpy", "polars", "uvloop", "w3lib")
_FORKS = multiprocessing.get_context("forkserver")
_WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect"}
_PATIENCE_S = 300


@dataclass(frozen=True)
class Fault:
    """A signal, and the moment at which it comes.

    That is where the `number`th request of the command reaches the model (`moment` is "request"),
    or just before the `number`th time that it makes, opens to write, renames or removes a file in
    the project ("write").
    """

    signal: signal.Signals
    moment: str
    number: int


def disturb(*arguments, cwd, fault, model):
    """Run a command that the fault meets, if it lasts that long; as `subprocess.run` gives it."""
    _FORKS.set_forkserver_preload([__name__, *_LIBRARIES])
    out, err = cwd.parent / "out.txt", cwd.parent / "err.txt"
    words = ["toolbank", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "80"}
    process = _FORKS.Process(
        target=_obey, args=(words, str(cwd), str(out), str(err), environment, fault)
    )
    started = threading.Event()

    def interrupt():
        started.wait()
        os.kill(process.pid, fault.signal)

    number = fault.number if fault.moment == "request" else None
    with model.calling(interrupt, number):
        process.start()
        started.set()
        process.join(_PATIENCE_S)
    assert process.exitcode is not None, "it hangs"
    return subprocess.CompletedProcess(
        words, process.exitcode, out.read_text(), err.read_text()
    )


def _obey(words, cwd, out, err, environment, fault):
    for path, stream in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = words
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if fault.moment == "write":
        _arm(cwd, fault)
    main()


def _arm(project, fault):
    left = fault.number

    def hook(event, args):
        nonlocal left
        if not _writes(event, args, project):
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), fault.signal)

    sys.addaudithook(hook)


def _writes(event, args, project):
    if event == "open":
        path, _, flags = args
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return False
    elif event in _WRITES:
        path = args[0]
    else:
        return False
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    return Path(os.fsdecode(path)).absolute().is_relative_to(project)
