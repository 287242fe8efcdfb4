"""Running a recipe whose engine answers in rounds, or not at all."""

import re
from dataclasses import replace

import pytest

from tests.engines import kind_of
from tests.requests.write.test_attempts import Swift, answer
from tests.servers.chat import Answer, ChatServer
from tests.world import good, write_recipe
from toolbank.commands.preview import preview_attempts
from toolbank.commands.show import show_attempt, show_outcomes
from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe
from toolbank.run.stages.generate import GenerateStage
from toolbank.system.errors import InputError, ToolbankError


class Rounds(Swift):
    """An engine that answers requests in rounds, the first `patience` of them at once."""

    name = "rounds"

    def __init__(self, patience=0):
        super().__init__()
        self.failures, self.rounds = {}, 0
        self.patience = patience

    def fill(self, _, journal, __):
        self.journal = journal
        return self

    def holds(self, key):
        return False

    async def exchange(self, missing):
        self.rounds += 1
        if self.rounds > self.patience:
            return f"{len(missing)} requests wait"
        for request in missing:
            key = request.key(self.identity)
            await self.journal.put(key, self.identity, request, answer(request))
        return ""


def recipe(folder, *settings, base_url="http://127.0.0.1:1/v1"):
    path = write_recipe(folder, base_url=base_url, model="m", queries=12)
    return load_recipe(path, settings)


@pytest.fixture
def run(tmp_path, monkeypatch):

    def run_with(engine):
        kind = replace(kind_of(engine), fill=engine.fill)
        monkeypatch.setattr("toolbank.llm.step.find_engine", lambda _: kind)
        return run_recipe(recipe(tmp_path), tmp_path / "out", until="judge")

    return run_with


def test_a_stage_that_waits_ends_the_run_and_the_next_run_goes_on_with_it(run):
    result = run(Rounds())
    # Some of the requests make up for replies that do not pass.
    waiting = int(result.waiting.removesuffix(" requests wait"))
    assert 12 < waiting <= 24
    assert result.did == ("sources", "generate")
    assert result.todo[:2] == ("generate", "judge")
    told = describe_result(result)
    assert told.startswith(f"{waiting} requests wait\n")
    assert f"toolbank run {result.folder.path}" in told
    assert not (result.folder.bank / "queries.parquet").exists()
    done = run(Rounds(patience=2))
    assert done.waiting == ""
    assert done.did == ("generate", "judge")
    assert "generate" not in done.todo


def by_rules(folder, name):
    folder.mkdir()
    path = write_recipe(folder, engine="rules", queries=12)
    return load_recipe(path, [f"name={name}"])


def meanwhile(monkeypatch, act):
    """Have `act` done once while a run gets what it needs, before it holds its folder."""

    def prepare(stage):
        monkeypatch.undo()
        act()
        stage.prepare()

    monkeypatch.setattr(GenerateStage, "prepare", prepare)


def test_a_folder_that_another_recipe_took_meanwhile_is_refused(tmp_path, monkeypatch):
    first, second = by_rules(tmp_path / "1", "aaa"), by_rules(tmp_path / "2", "bbb")
    out = tmp_path / "out"
    meanwhile(monkeypatch, lambda: run_recipe(first, out, until="generate"))
    with pytest.raises(InputError, match="name: aaa there, bbb in this recipe"):
        run_recipe(second, out)
    assert "name: aaa" in (out / "recipe.yaml").read_text()
    assert run_recipe(first, out, until="generate").did == ()


def test_a_folder_that_the_user_filled_meanwhile_is_refused(tmp_path, monkeypatch):
    out = tmp_path / "out"

    def fill():
        out.mkdir()
        (out / "recipe.yaml").write_text("mine")

    meanwhile(monkeypatch, fill)
    with pytest.raises(InputError, match="not the folder of a run") as error:
        run_recipe(by_rules(tmp_path / "1", "aaa"), out)
    assert f"--out {out / 'run'}" in str(error.value)
    assert (out / "recipe.yaml").read_text() == "mine"


def test_after_a_spent_budget_the_next_command_raises_it(tmp_path):
    with ChatServer(good) as server:
        eight = ["generate.concurrency=1", "generate.budget.calls=8"]
        spent = recipe(tmp_path, *eight, base_url=server.url)
        told = describe_result(run_recipe(spent, tmp_path / "out", until="generate"))
    assert "the budget of 8 calls" in told
    assert "These stages still have to run" not in told
    assert told.splitlines()[-1].endswith("--set generate.budget.calls=16")


def test_a_bank_short_of_queries_is_told_by_its_numbers_at_the_end(tmp_path):
    def script(call):
        return Answer.error(500) if call.number % 4 == 3 else good(call)

    with ChatServer(script) as server:
        once = ("generate.concurrency=1", "generate.retries=0")
        settings = ("generate.max_attempts=12", *once)
        short = recipe(tmp_path, *settings, base_url=server.url)
        told = describe_result(run_recipe(short, tmp_path / "out"))
    assert re.search(r"\d of 12 queries\.\nNext: toolbank run", told)
    assert "These stages still have to run" not in told


def test_where_nothing_is_accepted_show_has_the_reasons(tmp_path):
    with ChatServer(lambda _: Answer.text("What?")) as server:
        poor = recipe(tmp_path, "generate.max_attempts=3", base_url=server.url)
        with pytest.raises(ToolbankError, match="None of 3 attempts"):
            run_recipe(poor, tmp_path / "out", until="generate")
        asked = len(server.calls)
        shown = show_outcomes(tmp_path / "out")
        assert re.search(r"rejected +not-json +3 ", shown)
        assert "rejected: not-json (What?)" in show_attempt(tmp_path / "out", "1")
        server.script = good
        enough = recipe(tmp_path, "generate.max_attempts=30", base_url=server.url)
        run_recipe(enough, tmp_path / "out", until="generate")
        assert len(server.calls) > asked
    assert "accepted" in show_outcomes(tmp_path / "out")


def test_a_preview_that_is_stopped_shows_what_came_before(tmp_path):
    polished = []

    def script(call):
        polished.extend([call] * call.asks_polish)
        return Answer.error(401) if len(polished) > 1 else good(call)

    with ChatServer(script) as server:
        refused = recipe(tmp_path, "generate.concurrency=1", base_url=server.url).recipe
        shown = []
        with pytest.raises(ToolbankError, match="HTTP 401"):
            shown.extend(preview_attempts(refused, tmp_path / "out", 5))
    [whole] = [text for text in shown if ">>> accepted: " in text]
    part = next(text for text in shown if ">>> stopped before its end" in text)
    assert "--- polish: reply of" in whole
    assert "--- write: reply of" in part
