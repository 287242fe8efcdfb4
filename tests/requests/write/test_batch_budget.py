"""What a budget means where replies come in rounds."""

import sqlite3
import time

import pytest

from tests.requests.write.test_batch_rounds import by_hand, numbered, run, written
from tests.servers.batch import BatchServer
from toolbank.llm.engines.batch import hosted
from toolbank.system.errors import ToolbankError


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(hosted, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(hosted, "_LONGEST_WAIT", 0.05)


def sent(folder):
    """The requests of each file, by its name."""
    files = sorted((folder / "batch").glob("round-???-*-???.jsonl"))
    return {path.name: len(path.read_text().splitlines()) for path in files}


def submit(folder, **settings):
    with BatchServer(written) as server:
        return run(folder, "batch", server.url, options={"submit": True}, **settings)


def test_a_call_counts_once_where_it_is_put_into_a_file(tmp_path):
    whole = submit(tmp_path / "whole")
    calls = sum(sent(tmp_path / "whole").values())
    made = submit(tmp_path / "bounded", budget={"calls": calls})
    assert not made.lacks
    assert list(made.value.queries) == list(whole.value.queries)


@pytest.mark.parametrize("calls", [15, 20, 24])
def test_a_spent_budget_of_calls_bounds_a_round_whose_replies_are_read(tmp_path, calls):
    made = submit(tmp_path, budget={"calls": calls})
    count = sum(sent(tmp_path).values())
    assert calls - 1 <= count <= calls
    assert made.value.queries
    assert made.lacks
    assert any(f"budget of {calls} calls" in problem for problem in made.problems)
    again = submit(tmp_path, budget={"calls": calls})
    assert sum(sent(tmp_path).values()) == count
    assert list(again.value.queries) == list(made.value.queries)


def test_by_hand_a_budget_of_calls_holds_over_all_commands(tmp_path):
    made, _ = by_hand(tmp_path, written, budget={"calls": 20})
    assert 19 <= sum(sent(tmp_path).values()) <= 20
    assert made.value.queries


@pytest.mark.parametrize(
    "budget", [{"tokens": 8000}, {"dollars": 0.02}], ids=["tokens", "dollars"]
)
def test_tokens_and_dollars_bound_a_round_before_a_reply_is_counted(tmp_path, budget):
    price = {"input": 1, "output": 10}
    made = run(tmp_path, "batch", queries=500, budget=budget, price=price)
    assert made.waiting
    assert 0 < sum(sent(tmp_path).values()) < 50
    assert "is spent" in made.problems[0]


def test_rates_do_not_slow_the_writing_of_files(tmp_path):
    """At one a minute, 12 requests would take eleven minutes."""
    begun = time.monotonic()
    made = run(tmp_path, "batch", rpm=1, tpm=1)
    assert made.waiting
    assert time.monotonic() - begun < 60


def test_the_minutes_of_a_command_end_the_wait_for_a_batch(tmp_path):
    def endless(batch):
        batch.polls = 10**9

    with (
        BatchServer(written, on_create=endless) as server,
        pytest.raises(ToolbankError, match=r"budget of 0\.005 minutes"),
    ):
        run(
            tmp_path,
            "batch",
            server.url,
            options={"submit": True},
            budget={"minutes": 0.005},
        )


@pytest.mark.slow
def test_what_was_fetched_before_the_minutes_were_over_is_read(tmp_path):
    def slow(batch):
        batch.polls = 1 if batch.id == "batch_0" else 10**9

    options = {"submit": True, "max_requests": 6}
    with (
        BatchServer(written, on_create=slow) as server,
        pytest.raises(ToolbankError, match=r"budget of 0\.1 minutes"),
    ):
        run(tmp_path, "batch", server.url, options=options, budget={"minutes": 0.1})
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        (count,) = connection.execute("SELECT count(*) FROM replies").fetchone()
    assert count == 6


def test_a_request_that_failed_for_good_is_journaled_once(tmp_path):
    """Each command reads its file anew."""

    def script(call):
        refused = not call.asks_polish and numbered(call) % 3 == 1
        return None if refused else written(call)

    made, _ = by_hand(tmp_path, script, retries=0)
    failed = sum(made.value.counts["failed"].values())
    run(tmp_path, "batch", retries=0)
    with sqlite3.connect(tmp_path / "journal.sqlite") as connection:
        rows = connection.execute("SELECT count(*), count(DISTINCT key) FROM failures")
        (count, keys) = rows.fetchone()
    assert count == keys == failed > 0
