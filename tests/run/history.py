"""A user's project whose run has a history: what was done in it, and what must hold all the time."""

import hashlib
import json
import shutil
import signal
import threading
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from random import Random

import polars as pl
import yaml

from tests.commands.in_process import do, toolbank
from tests.run.disturbed import disturb
from tests.servers.chat import Answer, ChatServer
from tests.servers.kill import digest
from tests.world import good_reply
from toolbank.llm.journal import Journal

ROOT = Path(__file__).parents[2]
CONCURRENCY = 3
VERBS, NOUNS = ("find", "total", "list", "merge"), ("orders", "letters", "returns")
NAMES = tuple(f"{verb}_{noun}" for verb in VERBS for noun in NOUNS)
OTHERS = ("weigh_parcels", "paint_fences", "tune_pianos")
SOURCES = {
    "as at first": (NAMES, ()),
    "one more": ((*NAMES, "mend_kettles"), ()),
    "two gone": (NAMES[2:], ()),
    "reworded": (NAMES, NAMES[:3]),
    "halved": (NAMES[:4], ()),
    "broken": None,
}
"""What each state of the first source lists: names of tools, and those reworded."""
# A run that names no domain keeps that of its first recipe: its results follow from its history.
RECIPE = {
    "name": "mine",
    "domain": "shop",
    "seed": 0,
    "sources": [
        {"type": "functions", "path": "tools.json"},
        {"type": "functions", "path": "others.json"},
    ],
    "generate": {
        "engine": "openai",
        "model": "m",
        "queries": 8,
        "offered": 4,
        "max_tools": 2,
        "concurrency": CONCURRENCY,
    },
    "asks": {"per_tool": 2, "concurrency": CONCURRENCY},
    "judge": {"pairs": 4},
    "split": {"test": 0.3, "validation": 0.3},
    "baselines": False,
    "retrievers": [{"type": "bm25"}],
}
EDITED = "bank/queries.parquet"
BANK = ("tools", "queries", "attempts", "asks")


def list_tools(names, reworded=()):
    customer = {"customer": {"type": "string"}}
    parameters = {"type": "object", "properties": customer}
    rows = []
    for name in names:
        more = ", oldest first" if name in reworded else ""
        text = f"{name.replace('_', ' the ').title()} of a customer{more}."
        rows.append({"name": name, "description": text, "parameters": parameters})
    return json.dumps(rows)


class Ledger:
    """The replies that a run folder was given, and may never ask for again.

    The requests in flight at a kill may be asked for again: of those that the killed process has
    sent, the ones whose replies its journal does not hold.
    """

    def __init__(self):
        self.twice = []
        self._given = set()
        self._sent = []

    def begin(self):
        self._sent = []

    def take(self, body):
        if body in self._given:
            self.twice.append(body)
        self._given.add(body)
        self._sent.append(body)

    def note_kill(self, journal):
        kept = set()
        if journal.is_file():
            with Journal(journal, read_only=True) as replies:
                kept = {digest(entry.messages) for entry in replies.entries()}
        for body in self._sent:
            if digest(json.loads(body)["messages"]) not in kept:
                self._given.discard(body)


class Model(ChatServer):
    """A model that says the same to the same request, and to one in five what can't be used."""

    def __init__(self):
        super().__init__(self._answer)
        self.ledger = None
        self._left, self._call_back = None, None
        self._counting = threading.Lock()

    def _answer(self, call):
        body = json.dumps(call.body, sort_keys=True)
        with self._counting:
            if self.ledger:
                self.ledger.take(body)
            if self._left is not None:
                self._left -= 1
                if self._left == 0:
                    self._call_back()
        if Random(body).random() < 0.2:
            return Answer.text("I would rather not.")
        return Answer.json(good_reply(call))

    @contextmanager
    def calling(self, call_back, number):
        """Call this when the `number`th request from now on comes in; None for none."""
        self._call_back, self._left = call_back, number
        try:
            yield
        finally:
            self._left = None


class Project:
    """A folder with a recipe, its sources, a run, and files that the program has not written."""

    def __init__(self, folder, model, fresh, last):
        self.folder, self.model = folder / "project", model
        self.ledger = Ledger()
        self.history = []
        self._fresh, self._last = fresh, last
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.run_folder = self.folder / "runs/mine"
        self.recipe = deepcopy(RECIPE)
        self.recipe["generate"]["base_url"] = model.url
        # By path. What lies in a folder of the run's may be moved, and is never lost.
        self.kept, self.movable = {}, []
        self.write_recipe()
        self.write("others.json", list_tools(OTHERS))
        self.write_source("as at first")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.kept[name] = text

    def remove(self, name):
        (self.folder / name).unlink(missing_ok=True)
        self.kept.pop(name, None)

    def write_recipe(self):
        self.write("mine.yaml", yaml.safe_dump(self.recipe, sort_keys=False))

    def write_source(self, state):
        listed = SOURCES[state]
        self.write("tools.json", list_tools(*listed) if listed else "{")

    def put_into_run(self, name, text):
        """What the user puts into a folder that the run has made, over what is there."""
        path = self.run_folder / name
        self.movable = [one for one in self.movable if one != _read(path)]
        path.write_text(text)
        self.movable.append(text)

    def has_news(self, step):
        """Whether something else was done since this step."""
        return bool(self.history) and not self.history[-1].startswith(step)

    def is_written(self, name):
        """Whether the run has written this file and noted it."""
        try:
            stamps = json.loads((self.run_folder / "stages.json").read_text())
        except (OSError, ValueError):
            return False
        return any(name in stamp["outputs"] for stamp in stamps.values())

    def lose_accounts(self):
        """Damage the list of what the run has written: it then knows its files by name alone."""
        (self.run_folder / "stages.json").write_text("{")
        edited = _read(self.run_folder / EDITED)
        self.movable = [text for text in self.movable if text != edited]

    def do(self, *arguments, fault=None):
        """Run a command, and hold what must hold after any."""
        words = " ".join(map(str, arguments))
        self.history.append(f"{words} | {fault}" if fault else words)
        self.ledger.begin()
        self.model.ledger = self.ledger
        if fault:
            done = disturb(*arguments, cwd=self.folder, fault=fault, model=self.model)
        else:
            done = toolbank(*arguments, cwd=self.folder)
        self.model.ledger = None
        self.history[-1] += f" -> {done.returncode}"
        codes = {0, 1, 2, 3}
        if fault:
            codes.add(-fault.signal)
        assert done.returncode in codes, (self.history, done.stderr)
        assert "Traceback" not in done.stderr, (self.history, done.stderr)
        if done.returncode == -signal.SIGKILL:
            self.ledger.note_kill(self.run_folder / "journal.sqlite")
        self.check()
        return done

    def check(self):
        for name, text in self.kept.items():
            path = self.folder / name
            assert path.is_file(), (f"{name} is gone", self.history)
            assert path.read_text() == text, (f"{name} has changed", self.history)
        if self.movable:
            found = {_read(path) for path in self.run_folder.rglob("*")}
            for text in self.movable:
                assert text in found, (f"{text!r} is lost", self.history)
        assert not self.ledger.twice, ("asked for twice", self.history)

    def compare(self, *, measured):
        expected, found = self._run_fresh(), read_results(self.run_folder)
        names = [*BANK, *(["metrics"] if measured else [])]
        for name in names:
            assert found[name] == expected[name], (f"{name} differs", self.history)

    def _run_fresh(self):
        """The results of a new folder, with the same versions of the tools where there are any."""
        catalogue = self.run_folder / "catalogue"
        versions = [path.read_bytes() for path in sorted(catalogue.rglob("*.*"))]
        prompts = sorted((self.folder / "prompts").rglob("*.j2"))
        files = (self.folder / "mine.yaml", self.folder / "tools.json", *prompts)
        inputs = [*(path.read_bytes() for path in files), *versions]
        key = hashlib.sha256(b"\0".join(inputs)).hexdigest()
        if key not in self._fresh:
            out = self.folder.parent / "fresh"
            run = ("run", "mine.yaml", "--out", out)
            shutil.rmtree(out, ignore_errors=True)
            if versions:
                do(self.folder, *run, "--until", "sources")
                shutil.copytree(catalogue, out / "catalogue")
            do(self.folder, *run, "--until", self._last)
            self._fresh[key] = read_results(out)
        return self._fresh[key]


def read_results(run):
    found = {}
    for name in BANK:
        path = run / f"bank/{name}.parquet"
        found[name] = pl.read_parquet(path).to_dicts() if path.exists() else None
    metrics = run / "metrics.json"
    found["metrics"] = json.loads(metrics.read_text()) if metrics.exists() else None
    return found


def _read(path):
    if not path.is_file() or path.stat().st_size > 1000:
        return None
    return path.read_bytes().decode(errors="replace")
