import json

import pytest

from toolbank.llm.accounts import cost, describe_calls, resolve_price
from toolbank.llm.config import Price
from toolbank.llm.engines.openai.completion import make_identity
from toolbank.llm.journal import StepUsage
from toolbank.requests.judge.judges import JudgeConfig
from toolbank.requests.write.config import GenerateConfig

PRICE = Price(input=2, output=10)
LATENCY = {"p50": 0.4, "p90": 0.9, "p99": 2.0, "max": 3.5}


def usage(stage, config, replies, tokens=(0, 0), **parts):
    return StepUsage(stage, make_identity(config), replies, *tokens, **parts)


def row(replies, prompt_tokens, completion_tokens, dollars, failed_tries, latency):
    tokens = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    account = {"replies": replies, **tokens, "dollars": pytest.approx(dollars)}
    return {**account, "failed_tries": failed_tries, "latency_s": latency}


def test_tokens_dollars_failures_and_latencies_are_told_by_stage():
    config = GenerateConfig(model="some", price=PRICE)
    rows = [
        usage("write", config, 300, (1_000_000, 100_000), latency=LATENCY),
        usage("polish", config, 200, (500_000, 50_000), failed_tries={"timeout": 3}),
        usage("judge", config, 7, (10, 10)),
    ]
    assert describe_calls(rows, config) == {
        "write": row(300, 1_000_000, 100_000, 3, {}, LATENCY),
        "polish": row(200, 500_000, 50_000, 1.5, {"timeout": 3}, {}),
    }
    assert list(describe_calls(rows, JudgeConfig(model="some"))) == ["judge"]


def test_a_cost_that_can_not_be_known_is_not_nothing():
    unpriced = GenerateConfig(model="some")
    silent = GenerateConfig(model="some", price=PRICE)
    for config, one in (
        (
            GenerateConfig(engine="mine"),
            StepUsage("write", "an engine of another package", 3, 0, 0),
        ),
        (unpriced, usage("write", unpriced, 1, (9, 9))),
        (silent, usage("write", silent, 1)),
    ):
        told = json.loads(json.dumps(describe_calls([one], config)))
        assert told["write"]["dollars"] is None


def test_replies_of_an_earlier_model_are_counted_at_its_own_price(tmp_path):
    prices = tmp_path / "prices.yaml"
    prices.write_text("old: {input: 1, output: 1}\nnew: {input: 4, output: 4}\n")
    config = GenerateConfig(model="new", price=prices)
    rows = [
        usage("write", GenerateConfig(model="old"), 1, (500_000, 500_000)),
        usage("write", config, 2, (250_000, 0), failed_tries={"http-429": 1}),
        usage("write", GenerateConfig(model="old", temperature=0), 0),
    ]
    (write,) = describe_calls(rows, config).values()
    assert (write["replies"], write["dollars"]) == (3, pytest.approx(2))
    assert write["failed_tries"] == {"http-429": 1}
    only_new = config.model_copy(update={"price": PRICE})
    assert describe_calls(rows, only_new)["write"]["dollars"] is None


def test_a_price_is_in_the_recipe_or_in_a_file_by_model_or_unknown(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text("# dollars\nsmall/model-1.5: {input: 0.15, output: 0.6}\n")
    price = Price(input=0.15, output=0.6)
    for model, given, found in [
        ("any", PRICE, PRICE),
        ("small/model-1.5", path, price),
        ("large", path, None),
        ("large", None, None),
    ]:
        assert resolve_price(GenerateConfig(model=model, price=given)) == found
    assert cost(price, 2_000_000, 100_000) == pytest.approx(0.36)
