"""A small bank whose tools and queries lie far apart, and the same with asks."""

from dataclasses import replace

import pytest

from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask, Query, Tool


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
        ("My lawn looks dry, give it something to drink", ("garden.water",)),
        ("Will it rain? If not, soak the roses", ("garden.forecast", "garden.water")),
        ("Put on some jazz for dinner", ("music.play",)),
        ("Where has my package got to?", ("shop.trackParcel", "shop.gone")),
    ]
    queries = [
        Query(id=str(i), query=text, tools=tools, split="train")
        for i, (text, tools) in enumerate(uses)
    ]
    held_back = Query(
        id="t", query="Stop that awful noise", tools=("music.stop",), split="test"
    )
    tools = tuple(
        Tool(name=name, kind="function", summary=summary)
        for name, summary in summaries.items()
    )
    return Bank(tools, (*queries, held_back))


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
