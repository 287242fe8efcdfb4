"""Run tests in a copy of a checkout, in forks of one process that has loaded the large libraries.

    python mutation_copy.py FOLDER

mutation.py starts this in the virtual environment of the copy in FOLDER. It reads from each line of stdin which
tests to run, and answers with how they ended.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

_WARM = [
    "pytest",
    "hypothesis",
    "hypothesis.strategies",
    "numpy",
    "pydantic",
    "typer",
    "yaml",
    "tqdm",
    "safetensors",
    "jinja2",
    "jsonschema",
    "referencing",
    "aiohttp",
    "uvloop",
    "openai",
    "httpx2",
    "mcp",
    "starlette.applications",
    "uvicorn",
    "filelock",
    "polars",
    "pyarrow",
    "pyarrow.parquet",
    "scipy.sparse",
    "scipy.stats",
    "scipy.optimize",
    "bm25s",
    "torch",
    "onnxruntime",
    "usearch.index",
    "tokenizers",
    "transformers",
    "sentence_transformers",
    "sklearn.linear_model",
    "datasets",
    "pandas",
    "ir_measures",
]
_ENTERED = """
import builtins, mmap, os
_open, _write, _close = os.open, os.write, os.close
with open({folder!r} + "/current", "r+b") as file:
    current = mmap.mmap(file.fileno(), 4)
entered = set()
def enter(function):
    key = (current[:4], function)
    if key not in entered:
        entered.add(key)
        out = _open({folder!r} + "/entered", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        _write(out, b"%d %d\\n" % (int.from_bytes(key[0], "little"), function))
        _close(out)
builtins.__entered__ = enter
"""


class Copy:
    """A copy of a checkout and its virtual environment, in which tests run."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self._server: Any = None
        self._stamp = 0
        shutil.rmtree(folder, ignore_errors=True)
        self._sources: dict[str, str] = {}
        self.tree.mkdir(parents=True)
        for entry in checkout.iterdir():
            if entry.is_file() and entry.name != ".git":
                shutil.copy2(entry, self.tree)
            elif entry.is_dir() and entry.name[0] != "." and entry.name != "runs":
                compiled = shutil.ignore_patterns("__pycache__")
                shutil.copytree(entry, self.tree / entry.name, ignore=compiled)
        if (checkout.parent / "shared").exists():
            (folder / "shared").symlink_to((checkout.parent / "shared").resolve())
        (folder / "current").write_bytes(bytes(4))
        self._make_environment(checkout / ".venv", folder / "venv")

    def _make_environment(self, old: Path, new: Path) -> None:
        command = [old / "bin/python", "-m", "venv", "--without-pip", new]
        subprocess.run(command, check=True)
        packages = next(new.glob("lib/python*/site-packages"))
        theirs = old / packages.relative_to(new)
        (packages / "mutation_entered.py").write_text(
            _ENTERED.format(folder=str(self.folder))
        )
        (packages / "mutation.pth").write_text(
            f"{self.tree}\n{theirs}\nimport mutation_entered\n"
        )
        for script in (old / "bin").iterdir():
            copied = new / "bin" / script.name
            line = b"#!" + bytes(old / "bin/python")
            if copied.exists() or not script.read_bytes().startswith(line):
                continue
            text = script.read_bytes().removeprefix(line)
            copied.write_bytes(b"#!" + bytes(new / "bin/python") + text)
            copied.chmod(0o755)

    def write(self, path: str, text: str | None = None) -> None:
        """Write a source file of the copy; without text, restore it."""
        file = self.tree / path
        original = self._sources.setdefault(path, file.read_text())
        file.write_text(text or original)
        # Python recognises the bytecode of a file by its size and second.
        self._stamp += 1
        os.utime(file, (10**9 + self._stamp, 10**9 + self._stamp))
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            compiled.unlink()

    def compile(self) -> None:
        """Write the bytecode that is not there, so that no test has to."""
        python = self.folder / "venv/bin/python"
        subprocess.run([python, "-m", "compileall", "-qq", self.tree / "toolbank"])

    def run(
        self, tests: dict[str, list[str]], limit: float, go_on: bool = False
    ) -> Any:
        """Run tests of files ({file: names, or none for all}); stop at the first that fails."""
        if self._server is None or self._server.poll() is not None:
            self._server = self._start()
        order = {"tests": tests, "limit": limit, "go_on": go_on}
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def _start(self) -> Any:
        environment = {
            **{
                k: v
                for k, v in os.environ.items()
                if not k.startswith(("PYTHON", "VIRTUAL_ENV"))
            },
            "PATH": f"{self.folder / 'venv/bin'}:{os.environ['PATH']}",
            "TMPDIR": str(self.folder / "tmp"),
            "OMP_NUM_THREADS": "1",
        }
        return subprocess.Popen(
            [self.folder / "venv/bin/python", __file__, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "server.log").open("a"),
            text=True,
            env=environment,
            start_new_session=True,
        )

    def close(self) -> None:
        """End the process and remove the copy."""
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def serve(folder: Path) -> None:
    """Run tests for each line of stdin, in a fork of this process."""
    del sys.path[0]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # What tests leave running becomes a child of this process, which ends it.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    for name in _WARM:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        (folder / "tmp").mkdir()
        (folder / "entered").unlink(missing_ok=True)
        (folder / "outcome.json").unlink(missing_ok=True)
        start = time.monotonic()
        child = os.fork()
        if child == 0:
            _run_tests(folder, order)
        answer: dict[str, Any] = {"code": None}
        while time.monotonic() - start < order["limit"]:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                answer["code"] = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.01)
        answer["seconds"] = time.monotonic() - start
        _end_children()
        if (folder / "outcome.json").exists():
            answer |= json.loads((folder / "outcome.json").read_text())
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _end_children() -> None:
    while True:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        if not children:
            return
        for child in children:
            os.kill(int(child), signal.SIGKILL)
            os.waitpid(int(child), 0)


def _run_tests(folder: Path, order: dict[str, Any]) -> None:
    import pytest

    os.setsid()
    os.chdir(folder / "tree")
    log = os.open(folder / "tests.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # A fault may take memory or disk without end.
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
    watch = _Watch(folder, order["tests"])
    options = [
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--hypothesis-seed=0",
        "--tb=short",
    ]
    if not order["go_on"]:
        options.append("-x")
    code = 1
    try:
        code = int(pytest.main([*options, *order["tests"]], plugins=[watch]))
        watch.write()
    finally:
        os._exit(code)


class _Watch:
    """A pytest plugin: selects and orders tests, and notes which one runs and how it ends."""

    def __init__(self, folder: Path, tests: dict[str, list[str]]) -> None:
        self._folder = folder
        self._wanted = {name: i for i, name in enumerate(chain(*tests.values()))}
        self._names: list[str] = [""]
        self._seconds: dict[str, float] = {}
        self._failed: list[str] = []
        self._passed: list[str] = []

    def _set(self, name: str) -> None:
        self._names.append(name)
        with (self._folder / "current").open("r+b") as file:
            file.write((len(self._names) - 1).to_bytes(4, "little"))

    def pytest_collectstart(self, collector: Any) -> None:
        self._set(collector.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._fail(report.nodeid)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self._wanted:
            items[:] = [item for item in items if item.nodeid in self._wanted]
            items.sort(key=lambda item: self._wanted[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._set(nodeid)
        self._start = time.monotonic()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._fail(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed.append(report.nodeid)

    def _fail(self, name: str) -> None:
        self._failed.append(name)
        self.write()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._seconds[nodeid] = time.monotonic() - self._start

    def write(self) -> None:
        outcome = {"failed": self._failed, "passed": self._passed}
        outcome |= {"names": self._names, "took": self._seconds}
        (self._folder / "outcome.json").write_text(json.dumps(outcome))


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
