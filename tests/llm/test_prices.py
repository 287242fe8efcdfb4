import pytest

from toolbank.llm.accounts import cost, resolve_price
from toolbank.llm.config import EngineConfig, Price

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
