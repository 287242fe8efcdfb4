"""A packed finder for the tests, of eight tools, searched by their words."""

from toolbank.bank.bank import Bank
from toolbank.bank.call import HttpCall
from toolbank.bank.records import Tool
from toolbank.packed.write import write_packed
from toolbank.retrievers import create_retriever
from toolbank.retrievers.bm25.config import Bm25Config

TOOLS = (
    Tool(name="music.play", summary="Play a song.", source="home", tags=("sound",)),
    Tool(name="music.stop", summary="Stop the song.", source="home", tags=("sound",)),
    Tool(name="door.bell", summary="Ring the bell of a house.", source="home"),
    Tool(name="door.lock", summary="Lock the door of a house.", source="home"),
    Tool(
        name="get_weather",
        kind="operation",
        summary="Tell the forecast of a city.",
        source="weather",
        call=HttpCall(method="GET", path="/weather/{city}"),
        aliases=("forecast",),
    ),
    Tool(
        name="GET /storms",
        kind="operation",
        summary="List storms near a city.",
        source="weather",
    ),
    Tool(name="mail.send", summary="Send a letter to a person.", source="post"),
    Tool(name="mail.read", summary="Read the last letter.", source="post"),
)
REQUESTS = (
    ("put some jazz on", ("music.play",)),
    ("will it rain in Oslo", ("get_weather",)),
)


def write_pack(folder, tools=TOOLS, **options):
    """Pack BM25 over these tools; the version."""
    retriever = create_retriever(Bm25Config())
    retriever.fit(Bank(tuple(tools)))
    return write_packed(folder, {"bm25": retriever}, tools, **options)
