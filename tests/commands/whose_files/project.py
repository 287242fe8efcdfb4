"""A project of a user, what is done in it, and what its user would miss."""

import os
import subprocess
from contextlib import contextmanager

from tests.commands.in_process import do, toolbank
from toolbank.publish.exports import EXPORTS
from toolbank.search.run_search import load
from toolbank.system.errors import ToolbankError


def seen(folder):
    """What a user would miss: every path with what it holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
        elif not path.is_dir():
            found[name] = "no file"
    return found


RUN, SOURCES = ("run", "small.yaml"), ("--until", "sources")
COMMANDS = {
    "run": (*RUN, *SOURCES),
    "generate": ("generate", "data/../small.yaml"),
    "other": (*RUN, "--set", "name=other", *SOURCES),
    "plan": ("plan", "small.yaml"),
    "preview": ("preview", "small.yaml", "--count", "1"),
    "search": ("search", "runs/mine", "--queries", "asked.jsonl"),
    "evaluate": ("evaluate", "runs/mine", "--on", "asked.jsonl"),
    "init": ("init", "new", "--package", "json", "--prompts"),
    "train": ("train", "small.yaml"),
    "judge": ("judge", "small.yaml"),
    "replace": (*RUN, "--set", "seed=7", "--replace", *SOURCES),
    "crawl": ("crawl", "--sphinx", "http://127.0.0.1:9/"),
    **{form: ("export", "runs/mine", "--format", form) for form in EXPORTS.names},
}


def fresh(world, folder):
    place = folder / "project"
    done = subprocess.run(["cp", "-a", world, place], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place


@contextmanager
def read_by_others(pipe):
    """Have somebody read a pipe, without whom whoever writes to it waits."""
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield reader
    finally:
        os.close(reader)


def act(command, place, cwd):
    """Do it to a place; gives what a command ends with, or the kind of error that Python has."""
    place = os.environ["HOME"] if place == "~" else place
    if command == "show":
        return toolbank("show", place, cwd=cwd)
    if command != "save":
        return toolbank(*COMMANDS[command], "--out", place, cwd=cwd)
    try:
        load(cwd / "runs/mine").save(cwd / place)
    except ToolbankError as error:
        return subprocess.CompletedProcess("save", 2, "", str(error))
    return subprocess.CompletedProcess("save", 0, "", "")


def refused(project, *arguments, told):
    before = seen(project)
    done = do(project, *arguments, code=2)
    for part in told:
        assert part in done.stderr
    assert seen(project) == before
