"""Ctrl-C in a real terminal: what the user sees, and that nothing paid for is lost."""

import json
import os
import pty
import re
import select
import signal
import sys
import termios
import threading
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest

from tests.commands.in_process import do
from tests.servers.chat import Answer, ChatServer
from tests.world import good, write_recipe
from toolbank.llm.journal import Journal
from toolbank.retrievers.bm25 import Bm25Retriever
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import InterruptedByUserError

TOOLBANK = str(Path(sys.executable).with_name("toolbank"))
GENERATE = ("generate", "mine.yaml")
PATIENCE_S = 60


def write(folder, server):
    settings = {"model": "m", "concurrency": 4, "queries": 30}
    write_recipe(folder, base_url=server.url, **settings)


class Held:
    """Answers the first calls, and the others once it is let go."""

    def __init__(self, first):
        self.first = first
        self.in_flight = threading.Semaphore(0)
        self.let_go = threading.Event()

    def __call__(self, call):
        if call.number >= self.first and not self.let_go.is_set():
            self.in_flight.release()
            self.let_go.wait(PATIENCE_S)
        return good(call)


class Terminal:
    """A command in a terminal of its own; `shown` is all that it has printed."""

    def __init__(self, arguments, folder):
        self.shown = ""
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            termios.tcsetwinsize(0, (40, 160))
            os.chdir(folder)
            os.execv(arguments[0], arguments)

    def interrupt(self, key="ctrl-c"):
        if key == "ctrl-c":
            os.write(self._file, b"\x03")
        else:
            os.kill(self.pid, signal.SIGTERM)

    def wait_for(self, text):
        while text not in self.shown:
            assert self._read(), self.shown

    def wait_for_end(self):
        while self._read():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self._file)
        return os.waitstatus_to_exitcode(status)

    def _read(self):
        ready, _, _ = select.select([self._file], [], [], PATIENCE_S)
        assert ready, f"nothing more came: {self.shown}"
        try:
            data = os.read(self._file, 65536)
        except OSError:
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


@contextmanager
def interrupted_run(folder):
    """A run whose first forty calls are answered and whose next four are in flight."""
    held = Held(first=40)
    with ChatServer(held) as server:
        write(folder, server)
        terminal = Terminal([TOOLBANK, "run", "mine.yaml"], folder)
        for _ in range(4):
            assert held.in_flight.acquire(timeout=PATIENCE_S)
        try:
            yield terminal, held, server
        finally:
            held.let_go.set()


def journaled(folder):
    with Journal(folder / "runs/mine/journal.sqlite") as journal:
        return len(journal)


@pytest.mark.parametrize(
    "key", ["ctrl-c", pytest.param("sigterm", marks=pytest.mark.slow)]
)
def test_a_first_interrupt_finishes_what_is_in_flight(tmp_path, key):
    with interrupted_run(tmp_path) as (terminal, held, server):
        terminal.wait_for("4/4 in flight")
        terminal.interrupt(key)
        terminal.wait_for("finishing 4 calls in flight; a second Ctrl-C")
        held.let_go.set()
        assert terminal.wait_for_end() == 1
        assert len(server.calls) == journaled(tmp_path) == 44
        assert "the same command goes on" in " ".join(terminal.shown.split())
        assert "Traceback" not in terminal.shown
        there = int(re.search(r"generate\.queries=(\d+)", terminal.shown)[1])
        told = do(tmp_path, *GENERATE, "--set", f"generate.queries={there}").stderr
        assert f"{there} queries of {there} attempts" in told
        assert len(server.calls) == 44
        do(tmp_path, *GENERATE)
        assert len(server.calls) == 60


@pytest.mark.parametrize(
    ("key", "more", "gap"),
    [
        ("ctrl-c", 1, 0),
        ("ctrl-c", 3, 0),
        pytest.param("ctrl-c", 3, 0.01, marks=pytest.mark.slow),
        pytest.param("sigterm", 3, 0, marks=pytest.mark.slow),
        pytest.param("sigterm", 3, 0.01, marks=pytest.mark.slow),
    ],
)
def test_more_interrupts_stop_now_and_lose_nothing_that_came(tmp_path, key, more, gap):
    with interrupted_run(tmp_path) as (terminal, held, server):
        terminal.interrupt()
        terminal.wait_for("finishing 4 calls in flight; a second Ctrl-C")
        for _ in range(more):
            terminal.interrupt(key)
            sleep(gap)
        assert terminal.wait_for_end() in (1, -signal.SIGTERM)
        assert "Traceback" not in terminal.shown
        assert journaled(tmp_path) == 40
        if more == 1:
            assert "4 calls are given up in flight" in terminal.shown
            assert "the same command goes on" in " ".join(terminal.shown.split())
            held.let_go.set()
            do(tmp_path, *GENERATE)
            assert len(server.calls) == 64


def test_an_interrupt_with_nothing_in_flight_says_so(tmp_path):
    with ChatServer(lambda _: Answer.error(503, Retry_After="50")) as server:
        write(tmp_path, server)
        alone = ["--set", "generate.concurrency=1"]
        terminal = Terminal([TOOLBANK, "run", "mine.yaml", *alone], tmp_path)
        terminal.wait_for("all calls wait")
        terminal.interrupt()
        terminal.wait_for("no call is in flight; a second Ctrl-C or SIGTERM stops")
        assert terminal.wait_for_end() == 1
        assert "Traceback" not in terminal.shown


@pytest.mark.slow
def test_an_interrupt_at_any_moment_loses_no_reply(tmp_path):
    given = threading.Semaphore(0)

    def script(call):
        given.release()
        return good(call)

    with ChatServer(script) as server:
        write(tmp_path, server)
        for _ in range(3):
            terminal = Terminal([TOOLBANK, *GENERATE], tmp_path)
            for _ in range(7):
                assert given.acquire(timeout=PATIENCE_S)
            terminal.interrupt()
            assert terminal.wait_for_end() == 1
            assert journaled(tmp_path) == len(server.calls)
        do(tmp_path, *GENERATE)
        assert len(server.calls) == 60


NOTHING = "Nothing is kept of this stage; the stages before it are kept"
SITE = "sources.0={type: sphinx, base_url: http://127.0.0.1:1/}"


@pytest.mark.parametrize(
    ("stage", "settings", "at", "said"),
    [
        ("sources", [], "run.stages.sources.collect_tools", NOTHING),
        ("sources", [SITE], "run.stages.sources.collect_tools", "Pages that were read"),
        ("generate", [], "run.stages.generate.write_queries", "Every reply that came"),
        ("judge", [], "run.stages.judge.judge_bank", NOTHING),
        ("profile", [], "run.stages.profile.write_records", NOTHING),
        ("retrievers/bm25", [], "retrievers.bm25.Bm25Retriever.save", NOTHING),
        ("evaluate", [], "run.stages.evaluate.write_hits", NOTHING),
        ("report", [], "report.report.write_report", NOTHING),
    ],
)
def test_a_stop_says_what_is_kept(tmp_path, monkeypatch, stage, settings, at, said):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    path = write_recipe(tmp_path, engine="rules", queries=30)
    recipe = load_recipe(path, settings)
    monkeypatch.setattr(f"toolbank.{at}", interrupt)
    with pytest.raises(InterruptedByUserError) as stopped:
        run_recipe(recipe, tmp_path / "run")
    assert str(stopped.value).startswith(f"stopped in stage {stage}. {said}")


def test_fitting_anew_goes_on_after_a_stop(tmp_path, monkeypatch):
    save = Bm25Retriever.save

    def stop_at_second(retriever, folder):
        if retriever.config.label == "second":
            raise KeyboardInterrupt
        save(retriever, folder)

    def train():
        return run_recipe(recipe, out, start="retrievers", until="retrievers").did

    path = write_recipe(tmp_path, engine="rules", queries=30)
    kinds = [{"type": "bm25", "name": name} for name in ("first", "second", "third")]
    recipe = load_recipe(path, [f"retrievers={json.dumps(kinds)}", "baselines=false"])
    out = tmp_path / "run"
    run_recipe(recipe, out, until="retrievers")
    stages = ("retrievers/first", "retrievers/second", "retrievers/third")
    assert train() == stages
    with monkeypatch.context() as patch:
        patch.setattr(Bm25Retriever, "save", stop_at_second)
        with pytest.raises(
            InterruptedByUserError, match=r"stopped in stage retrievers/second\."
        ):
            train()
    assert train() == stages[1:]
    assert not (out / "replaced").exists()
    assert train() == stages
