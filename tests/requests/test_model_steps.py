"""What asks, verify and judge have in common: interrupts, budgets and batch files."""

import os
import re
import signal

import pytest

from tests.requests.asks.test_write import ask, told
from tests.requests.judge.test_judge import make_bank
from tests.requests.verify.test_second_call import by_free_answer, verify_twice
from tests.requests.verify.test_verify import by_rule, verify
from tests.servers.batch import answer_file
from tests.servers.chat import Answer, ChatServer
from tests.world import good
from toolbank.llm.journal import Journal
from toolbank.requests.judge.judge import judge_bank
from toolbank.requests.judge.judges import JudgeConfig
from toolbank.system.errors import InterruptedByUserError

BATCH = {"engine": "batch", "model": "m", "base_url": "https://api.example.com/v1"}


def judge(server, folder, **settings):
    address = getattr(server, "url", "")
    settings = {"engine": "openai", "model": "m", "base_url": address, **settings}
    with Journal(folder / "journal.sqlite") as journal:
        return judge_bank(make_bank(), JudgeConfig(**settings), seed=0, journal=journal)


def prefer_good(call):
    first = re.search(r"<request-a>\n(\w+)", call.prompt)[1]
    return Answer.json({"reason": "", "winner": "A" if first == "good" else "B"})


STEPS = {
    "asks": (ask, good, 16, lambda made: (told(made), made.value.content["counts"])),
    "verify": (verify, by_rule, 12, lambda made: made.value.labels),
    "second call": (verify_twice, by_free_answer, 24, lambda made: made.value.labels),
    "judge": (judge, prefer_good, 48, lambda made: made.value),
}


@pytest.fixture(params=STEPS)
def step(request):
    """The step, its good model, the calls it makes, and what of its result has to agree."""
    return STEPS[request.param]


@pytest.fixture
def whole(step, tmp_path):
    """The result of an undisturbed run."""
    run, model, calls, result = step
    with ChatServer(model) as server:
        made = run(server, tmp_path / "whole")
        assert len(server.calls) == calls
    assert not made.lacks
    return result(made)


def test_an_interrupt_keeps_what_came_and_the_next_run_goes_on(step, tmp_path, whole):
    run, model, calls, result = step

    def script(call):
        if call.number == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return model(call)

    with ChatServer(script) as server:
        with pytest.raises(InterruptedByUserError, match="the same command"):
            run(server, tmp_path / "cut", concurrency=2)
        asked = len(server.calls)
        assert 6 <= asked < calls
        with Journal(tmp_path / "cut" / "journal.sqlite") as journal:
            assert len(journal) == asked
        assert result(run(server, tmp_path / "cut")) == whole
        assert len(server.calls) == calls


def test_a_spent_budget_ends_it_early_and_the_next_run_goes_on(step, tmp_path, whole):
    run, model, calls, result = step
    with ChatServer(model) as server:
        part = run(server, tmp_path, budget={"calls": 5}, concurrency=2)
        # An attempt of two calls is not begun with room for one.
        assert len(server.calls) in (4, 5)
        assert part.lacks
        assert part.ended_early.option.endswith(".budget.calls=10")
        assert result(run(server, tmp_path)) == whole
        assert len(server.calls) == calls


def test_by_batch_files_the_result_is_that_of_an_endpoint(step, tmp_path, whole):
    run, model, calls, result = step
    answered = set()
    while (made := run(None, tmp_path, **BATCH)).waiting:
        [path] = {*(tmp_path / "batch").glob("round-*.jsonl")} - answered
        lines = path.read_text()
        calls -= len(lines.splitlines())
        output = path.with_name(f"output-{len(answered)}.jsonl")
        output.write_text(answer_file(lines, model))
        answered.add(path)
    assert not (made.lacks or calls)
    assert result(made) == whole
