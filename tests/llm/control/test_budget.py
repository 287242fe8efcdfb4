import pytest

from tests.llm.control.virtual import request
from toolbank.chat.chat import ChatReply
from toolbank.generate.config import GenerateConfig
from toolbank.journal import StageUsage
from toolbank.llm.control.budget import Budget
from toolbank.system.errors import InputError

USED = StageUsage("write", "{}", 10, 1000, 500, {"http-500": 2})
JUDGED = StageUsage("judge", "{}", 90, 9000, 9000)
PRICE = {"input": 1.0, "output": 2.0}


def budget(usage=(), now=0.0, price=None, **limits):
    config = GenerateConfig(model="m", budget=limits, price=price)
    return Budget(config, usage, now)


def test_calls_count_over_the_folder_failed_ones_too_and_of_this_stage_alone():
    spent = budget([USED, JUDGED], calls=14)
    for _ in range(2):
        assert not spent.why_spent(0.0)
        spent.send(request(0))
    assert "14 calls" in spent.why_spent(0.0)
    assert "--set generate.budget.calls=28" in spent.why_spent(0.0)


def test_tokens_count_in_and_out():
    spent = budget([USED, JUDGED], tokens=2000)
    spent.take(ChatReply("", "m", 300, 199))
    assert not spent.why_spent(0.0)
    spent.take(ChatReply("", "m", 1, 0))
    assert "2,000 tokens" in spent.why_spent(0.0)


def test_dollars_count_by_the_price():
    spent = budget([USED], price=PRICE, dollars=0.003)
    assert spent.dollars == pytest.approx(0.002)
    assert not spent.why_spent(0.0)
    spent.take(ChatReply("", "m", 1000, 0))
    assert "0.003 dollars" in spent.why_spent(0.0)
    assert "generate.budget.dollars=0.006" in spent.why_spent(0.0)


def test_replies_of_unknown_cost_leave_what_was_spent_as_it_was():
    """One reply of an earlier model, whose price nobody knows."""
    mine = StageUsage("write", '{"model": "m"}', 10, 1000, 500)
    other = StageUsage("write", '{"model": "other"}', 1, 100, 0)
    spent = budget([mine, other], price=PRICE, dollars=0.002)
    assert spent.dollars == pytest.approx(0.002)
    assert "1 reply of unknown cost" in spent.why_spent(0.0)
    assert "unknown" not in budget([mine], price=PRICE, dollars=0.002).why_spent(0.0)


def test_dollars_of_a_model_that_the_prices_lack_are_bad_input(tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("another: {input: 1, output: 2}\n")
    with pytest.raises(InputError, match=r"prices\.yaml: no price of 'm'"):
        budget(price=prices, dollars=1)
    assert budget(price=prices).dollars is None


def test_minutes_count_from_the_start_of_this_command():
    spent = budget([USED], now=1000.0, minutes=2)
    assert spent.seconds_left(1030.0) == 90
    assert not spent.why_spent(1119.0)
    assert "2 minutes" in spent.why_spent(1120.0)
    assert budget().seconds_left(0.0) is None
