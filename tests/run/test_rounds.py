"""Runs whose stages send their requests in batches: which of them share a round."""

import re
from pathlib import Path

import pytest
import yaml

from tests.commands.in_process import toolbank
from tests.servers.batch import BatchServer, answer_file
from tests.servers.chat import ChatServer
from tests.world import good, write_recipe
from toolbank.bank.bank import Bank
from toolbank.llm.engines.batch import hosted
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe

BATCH = {"engine": "batch", "model": "m", "base_url": "https://api.example.com/v1"}
# Steps of independent stages go out together.
ROUNDS = [{"write", "ask"}, {"polish"}, {"judge", "verify"}]


@pytest.fixture
def recipe(tmp_path):
    """A recipe all of whose calls go to one engine."""

    def make(parts=None, **engine):
        path = Path(write_recipe(tmp_path, queries=6, **engine))
        content = yaml.safe_load(path.read_text())
        own = {"asks": {}, "judge": {"pairs": 2}, "verify": {"candidates": 3}}
        own |= parts or {}
        content |= {key: {**engine, **more} for key, more in own.items()}
        path.write_text(yaml.safe_dump(content))
        return load_recipe(str(path))

    return make


def texts(out):
    """What was made of the replies, without the names of engines."""
    bank = Bank.load(out / "bank")
    asks = [(ask.tool, ask.kind, ask.ask) for ask in bank.asks]
    return asks, [(query.id, query.query, query.tools) for query in bank.queries]


def steps_of(names):
    return {re.search(r"round-\d+-([a-z]+)-", str(name))[1] for name in names}


def test_independent_stages_share_the_rounds_that_plan_names(recipe, tmp_path):
    file, out = recipe(**BATCH), tmp_path / "out"
    plan = " ".join(describe_plan(file, out).split())
    assert "1. write, ask; 2. polish; 3. judge, verify" in plan
    assert "12 if every attempt is accepted, at most 24" in plan
    rounds = []
    while (made := run_recipe(file, out, until="verify")).waiting:
        requests = (out / "batch").glob("round-???-*-???.jsonl")
        new = [p for p in requests if not (out / "batch" / f"out-{p.name}").exists()]
        assert all(str(path) in made.waiting for path in new)
        rounds.append(steps_of(new))
        for path in new:
            output = path.with_name(f"out-{path.name}")
            output.write_text(answer_file(path.read_text(), good))
    assert rounds == ROUNDS
    with ChatServer(good) as server:
        other = recipe(**{**BATCH, "engine": "openai", "base_url": server.url})
        run_recipe(other, tmp_path / "other", until="verify")
    assert texts(out) == texts(tmp_path / "other")


@pytest.mark.parametrize("graders", [[], [{"model": "one"}, {"model": "two"}]])
def test_hosted_batches_of_independent_stages_run_at_the_same_time(
    recipe, tmp_path, monkeypatch, graders
):
    monkeypatch.setattr(hosted, "_FIRST_WAIT", 0.01)
    open_then = {}

    def note(batch):
        batch.polls = 3
        others = [b for b in server.batches.values() if b.status != "completed"]
        open_then[batch.id] = [b.metadata for b in others if b.id != batch.id]

    with BatchServer(good, on_create=note) as server:
        engine = {**BATCH, "base_url": server.url, "options": {"submit": True}}
        verify = {**engine, "candidates": 3, "second_call": 0, "graders": graders}
        file = recipe(parts={"verify": verify}, **engine)
        made = run_recipe(file, tmp_path / "out", until="verify")
        assert not made.waiting
        shared = [
            {*steps_of([server.batches[key].metadata]), *steps_of(others)}
            for key, others in open_then.items()
            if others
        ]
    assert shared == [ROUNDS[0], *[ROUNDS[2]] * max(1, len(graders))]


@pytest.mark.slow
def test_a_batch_that_is_not_awaited_is_fetched_later(recipe, tmp_path):
    """Each command submits or fetches what it can, and ends with 3."""

    def slow(batch):
        batch.polls = 2

    with BatchServer(good, on_create=slow) as server:
        options = {"submit": True, "wait": False}
        recipe(**{**BATCH, "base_url": server.url}, options=options)
        codes = []
        while 0 not in codes and len(codes) < 9:
            asked = toolbank("run", "mine.yaml", "--until", "verify", cwd=tmp_path)
            codes.append(asked.returncode)
            assert ("submitted as batch_" in asked.stdout) == (asked.returncode == 3)
    assert set(codes[:-1]) == {3}
