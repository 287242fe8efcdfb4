import pytest

from toolbank.llm.accounts import cost, resolve_price
from toolbank.llm.config import EngineConfig, Price
from toolbank.system.errors import InputError

PRICES = """\
# dollars a million tokens
small/model-1.5: {input: 0.15, output: 0.6}
large:
  input: 3
  output: 15
"""


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.yaml"
    path.write_text(PRICES)
    return path


def test_a_price_stands_in_the_recipe():
    price = Price(input=1, output=2)
    assert resolve_price(EngineConfig(model="any", price=price)) == price


def test_a_price_is_found_in_a_file_by_the_models_name(prices):
    config = EngineConfig(model="small/model-1.5", price=prices)
    assert resolve_price(config) == Price(input=0.15, output=0.6)


def test_a_price_that_nobody_gave_is_unknown_and_not_nothing(prices):
    assert resolve_price(EngineConfig(model="large")) is None
    assert resolve_price(EngineConfig(model="other", price=prices)) is None


def test_a_cost_is_of_tokens_in_and_out():
    assert cost(Price(input=3, output=15), 2_000_000, 100_000) == pytest.approx(7.5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PRICES + "other: {input: cheap, output: 1}\n", ["line 6", "other.input"]),
        (PRICES + "other: {input: 1}\n", ["line 6", "other.output: is missing"]),
        (PRICES + "other: 3\n", ["line 6", "other", "mapping"]),
        (PRICES + "other: {input: -1, output: 1}\n", ["line 6", "other.input"]),
        (PRICES + "other: {input: 1, ouput: 1, output: 1}\n", ["'output'"]),
        (PRICES + "large: {input: 1, output: 1}\n", ["line 6", "twice"]),
        (PRICES + "5: {input: 1, output: 1}\n", ["5", "string"]),
        ("[1]", ["mapping"]),
    ],
)
def test_a_broken_file_of_prices_is_refused_with_line_and_key(prices, text, told):
    prices.write_text(text)
    with pytest.raises(InputError) as caught:
        resolve_price(EngineConfig(model="large", price=prices))
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    for part in ("prices.yaml", *told):
        assert part in message


def test_a_file_of_prices_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml"):
        resolve_price(EngineConfig(model="large", price=tmp_path / "none.yaml"))
