import pytest

from toolbank.llm.budget import Budget
from toolbank.llm.chat import ChatReply, EngineError
from toolbank.llm.journal import StepUsage
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import InputError

USED = StepUsage("write", "{}", 10, 1000, 500, {"http-500": 2})
JUDGED = StepUsage("judge", "{}", 90, 9000, 9000)
PRICE = {"input": 1.0, "output": 2.0}
REPLY = ChatReply("", "m", 100, 50)
FAILED = EngineError("no", reason="http-500")


def budget(usage=(), price=None, **limits):
    config = GenerateConfig(model="m", budget=limits, price=price)
    return Budget(config, usage, 0.0)


def spend(budget, calls=1):
    """Make attempts of a call each until there is no room; gives how many."""
    made = 0
    while held := budget.reserve(calls, 100):
        for _ in range(calls):
            budget.answer(held, REPLY)
        budget.settle(held)
        made += 1
    return made


@pytest.mark.parametrize(
    ("limits", "said", "option"),
    [
        ({"calls": 14}, "14 calls is spent;", "calls=28"),
        ({"tokens": 1800}, "1,800 tokens is spent;", "tokens=3600"),
        ({"dollars": 0.0025}, "0.0025 dollars is spent but for 0", "dollars=0.005"),
    ],
)
def test_what_the_stage_has_spent_counts_failed_tries_too(limits, said, option):
    spent = budget([USED, JUDGED], price=PRICE, **limits)
    assert spent.dollars == pytest.approx(0.002)
    assert spend(spent) == 2
    end = spent.explain(1)
    assert said in end.message
    assert end.option == f"--set generate.budget.{option}"
    assert end.option in end.message


def test_an_attempt_begins_where_there_is_room_for_all_its_calls():
    spent = budget(calls=5)
    assert spend(spent, calls=2) == 2
    assert "5 calls is spent but for 1, too little to go on" in spent.explain(2).message


def test_a_prompt_that_finds_no_room_changes_nothing():
    spent = budget(tokens=1500)
    assert spent.reserve(1, 100)
    before = spent.explain(1)
    assert spent.reserve(1, 5000) is None
    assert spent.explain(1) == before


def test_where_tries_fail_the_youngest_attempts_give_way():
    spent = budget(calls=6)
    oldest, second, youngest = (spent.reserve(2, 100) for _ in range(3))
    assert spent.reserve(1, 100) is None
    spent.fail(oldest, FAILED)
    assert (oldest.calls, second.calls, youngest.calls) == (2, 2, 0)
    spent.fail(oldest, FAILED)
    assert (oldest.calls, second.calls) == (2, 2)
    spent.fail(oldest, FAILED)
    assert (oldest.calls, second.calls) == (2, 0)


def test_replies_of_unknown_cost_leave_what_was_spent_as_it_was():
    """One reply of an earlier model, whose price nobody knows."""
    mine = StepUsage("write", '{"model": "m"}', 10, 1000, 500)
    other = StepUsage("write", '{"model": "other"}', 1, 100, 0)
    spent = budget([mine, other], price=PRICE, dollars=0.002)
    assert spent.dollars == pytest.approx(0.002)
    assert "1 reply of unknown cost" in spent.explain(1).message
    known = budget([mine], price=PRICE, dollars=0.002)
    assert "unknown" not in known.explain(1).message


def test_dollars_of_a_model_that_the_prices_lack_are_bad_input(tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("another: {input: 1, output: 2}\n")
    with pytest.raises(InputError, match=r"prices\.yaml: .*'m'.*budget\.dollars"):
        budget(price=prices, dollars=1)
    assert budget(price=prices).dollars is None
