"""A small bank whose tools and queries lie far apart, and the same with asks."""

from dataclasses import replace

import pytest

from tests.retrievers.llm.reranker import answer_by_words
from tests.retrievers.small_methods import make_cases
from tests.servers.chat import ChatServer
from tests.world import make_bank
from toolbank.bank.records import Ask


@pytest.fixture(scope="session")
def bank():
    summaries = {
        "shop.refund_order": "Give a customer the money of an order back.",
        "shop.trackParcel": "Say where a shipment is.",
        "garden.water": "Open the irrigation valves.",
        "garden.forecast": "Tomorrow's weather.",
        "music.play": "Start a song.",
        "music.stop": "Silence the speakers.",
    }
    uses = [
        ("My lawn looks dry, give it something to drink", ["garden.water"], "train"),
        ("If no rain, soak the roses", ["garden.forecast", "garden.water"], "train"),
        ("Put on some jazz for dinner", ["music.play"], "train"),
        ("Where has my package got to?", ["shop.trackParcel", "shop.gone"], "train"),
        ("Stop that awful noise", ["music.stop"], "test"),
    ]
    return make_bank(summaries, uses)


@pytest.fixture(scope="session")
def asked(bank):
    """The bank, asks for a tool that queries use and for one that none does, and one for two."""
    asks = {
        "music.play": "I'd love to hear the Beatles",
        "music.stop": "Hush, it's late",
        "shop.trackParcel": "It never arrived, sort it out",
        "shop.refund_order": "It never arrived, sort it out",
    }
    return replace(
        bank,
        asks=tuple(Ask(tool=t, kind="plain", ask=text) for t, text in asks.items()),
    )


@pytest.fixture(scope="session")
def reranker():
    with ChatServer(answer_by_words) as server:
        yield server


@pytest.fixture(scope="session")
def cases(bank, tmp_path_factory, reranker):
    """Every method on the small bank, by label; each is fitted once."""
    return make_cases(bank, tmp_path_factory.mktemp("encoder"), reranker)
