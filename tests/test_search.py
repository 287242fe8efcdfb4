"""Searching, and tools that come after the fit."""

import pytest

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.retrievers import create_retriever
from toolbank.retrievers.bm25.config import Bm25Config
from toolbank.search import Finder
from toolbank.system.errors import InputError

PLAY = Tool(name="music.play", kind="function", summary="Play a song.")
BELL = Tool(name="door.bell", kind="function", summary="Ring the bell of a house.")


@pytest.fixture
def finder():
    retriever = create_retriever(Bm25Config())
    retriever.fit(Bank((PLAY,)))
    return Finder(retriever, (PLAY,))


def test_a_tool_added_after_the_fit_is_found(finder):
    assert finder.search("ring the bell") == []
    finder.add_tools([BELL])
    assert [hit.tool for hit in finder.search("ring the bell")] == [BELL]


@pytest.mark.parametrize("k", [0, -1])
def test_no_fewer_than_one_tool_can_be_asked_for(finder, k):
    with pytest.raises(InputError, match=f"k is {k}; .* at least 1"):
        finder.search("song", k=k)


def test_a_tool_that_is_there_is_refused_and_nothing_is_added(finder):
    with pytest.raises(InputError, match=r"music\.play: can't be added"):
        finder.add_tools([BELL, PLAY])
    assert finder.tools == (PLAY,)
    assert len(finder.search("song")) == 1


@pytest.mark.parametrize("query", ["", "  ", None, 7])
def test_what_is_no_request_is_refused(finder, query):
    with pytest.raises(InputError, match="has to be a text"):
        finder.search(query)


def test_a_tool_that_is_in_no_list_is_refused(finder):
    with pytest.raises(InputError, match=r"add_tools\(\[tool\]\)"):
        finder.add_tools(BELL)
