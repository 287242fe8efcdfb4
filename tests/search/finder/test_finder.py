"""Searching, and tools that come and go."""

import copy
import errno
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import toolbank
from tests.world import write_recipe
from toolbank.bank.bank import Bank
from toolbank.bank.files import write_tools
from toolbank.bank.records import Tool
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import Bm25Config, Tool2VecConfig
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.search.finder import Finder
from toolbank.search.run_search import load
from toolbank.system.errors import InputError, ToolbankError

PLAY = Tool(name="music.play", kind="function", summary="Play a song.")
BELL = Tool(name="door.bell", kind="function", summary="Ring the bell of a house.")
WEATHER = {
    "name": "get_weather",
    "description": "Tell the forecast of a city.\n\nFor a week.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
def finder():
    retriever = create_retriever(Bm25Config())
    retriever.fit(Bank((PLAY,)))
    return Finder(retriever, (PLAY,))


def find(finder, request, k=5):
    return [hit.tool.name for hit in finder.search(request, k=k)]


def get_weather(city: str, days: int = 3):
    """Tell the forecast of a city.

    Args:
        city: Where.
        days: How long.
    """


def test_tools_come_and_go_after_the_fit(finder):
    assert finder.search("ring the bell") == []
    for _ in range(2):
        finder.add_tools([BELL])
        assert [hit.tool for hit in finder.search("ring the bell")] == [BELL]
        finder.remove_tools(["door.bell"])
        assert finder.search("ring the bell") == []
        assert finder.tools == (PLAY,)
    for k in (1, 10**30, np.int64(7)):
        assert find(finder, "song", k) == ["music.play"]
    finder.remove_tools(["music.play"])
    assert finder.search("play a song") == []
    finder.add_tools([BELL])
    assert find(finder, "the bell of a song") == ["door.bell"]


def test_what_is_found_goes_into_a_request_and_its_calls_come_back(finder):
    finder.add_tools([BELL, Tool(name="3d.bell", summary="Draw a bell.")])
    (function,) = finder.as_tools("ring the bell", k=1, format="anthropic")
    assert function["input_schema"] == BELL.parameters
    assert finder.find_function(function["name"]) == BELL
    (wrapped,) = finder.as_tools("draw bell", k=1, format="gemini")
    assert [one["name"] for one in wrapped["functionDeclarations"]] == ["_3d_bell"]
    assert finder.find_function("_3d_bell").name == "3d.bell"


def test_asks_find_a_tool_that_is_added_with_them_and_are_saved(tmp_path):
    def search(finder):
        hits = finder.search("will I need my umbrella")
        return {hit.tool.name: hit.score for hit in hits}

    retriever = create_retriever(Tool2VecConfig())
    retriever.fit(Bank((PLAY, BELL)))
    finder = Finder(retriever, (PLAY, BELL))
    asks = {"get_weather": ["do I need an umbrella", "is it going to be icy tonight"]}
    finder.add_tools([WEATHER], asks)
    found = search(finder)
    assert next(iter(found)) == "get_weather"
    finder.save(tmp_path / "mine")
    assert search(load(tmp_path / "mine")) == found
    finder.remove_tools(["get_weather"])
    finder.add_tools([WEATHER])
    assert search(finder)["get_weather"] < found["get_weather"]


SUMMARY = "Tell the forecast of a city."


@pytest.mark.parametrize(
    "given",
    [
        [WEATHER],
        {"tools": [WEATHER]},
        [{"type": "function", "function": WEATHER}],
        [{**WEATHER, "inputSchema": WEATHER["parameters"], "parameters": None}],
        [{**WEATHER, "kind": "function", "summary": SUMMARY}],
        [{**WEATHER, "summary": SUMMARY}],
        [get_weather],
        [Tool(name="get_weather", summary=SUMMARY, parameters=WEATHER["parameters"])],
    ],
)
def test_a_tool_is_taken_in_the_form_that_it_has(finder, given):
    finder.add_tools(given)
    (hit,) = finder.search("forecast of Paris")
    assert (hit.tool.name, hit.tool.summary) == ("get_weather", SUMMARY)
    assert hit.tool.parameters["properties"]["city"]["type"] == "string"


NOT_TOOLS = [
    ({}, 'no "name"'),
    ({"name": ""}, '"name" is blank'),
    ({"name": "a.b"}, "a.b has no description"),
    ({"name": "a", "description": 3}, '"description" is not a string'),
    ({"name": "a", "description": "Do \ud800."}, "half a character"),
    ({**WEATHER, "parameters": {"properties": {"x": {1, 2}}}}, "not JSON"),
    ({**WEATHER, "parameters": "foo"}, '"parameters"'),
    ({"name": "a", "kind": "spoon", "summary": "Eat."}, "kind"),
    (Tool(name="", summary="Eat."), "no name"),
    (Tool(name="eat", summary=" "), "eat has no description"),
    (lambda x: x, "without a name"),
    (find, "find has no description"),
    (7, "a tool, a dict or a function"),
    ("abc", "a tool, a dict or a function"),
]
REFUSED = [
    # A call, what is named, and what to do or give.
    *(("search", (query,), "request", "string") for query in (None, 7, b"song", [])),
    *(("search", (query,), "request", "empty") for query in ("", " ")),
    ("search", ("a \ud800",), "request", "at 2"),
    *(
        ("search", ("song", k), f"k is {k!r}", "at least 1")
        for k in (0, -1, 2.5, "3", None, True, np.nan)
    ),
    *(("search_many", (q,), "list", "([request])") for q in ("song", None, 3)),
    ("search", ("song", 1, "mlc"), "'mlc'", "bm25"),
    ("answer", ("song", 1, 2), "min_score is 2", "from 0 to 1"),
    ("as_tools", ("song", 1, "xml"), "'xml'", "openai, anthropic, gemini, mcp"),
    ("function", (PLAY, "xml"), "'xml'", "openai"),
    ("find_function", ("window",), "'window'", ""),
    *(
        ("add_tools", (given,), "The tools are", "[tool]")
        for given in (BELL, WEATHER, get_weather, "abc", None, 3)
    ),
    *(("add_tools", ([BELL, given],), "Tool 2, ", why) for given, why in NOT_TOOLS),
    ("add_tools", ([BELL, PLAY],), "music.play", "remove_tools"),
    ("add_tools", ([BELL, BELL],), "door.bell", "given twice"),
    ("add_tools", ([BELL], ["ring it"]), "asks", "{name: [request"),
    ("add_tools", ([BELL], {"door.bell": "ring it"}), "door.bell", "list of requests"),
    ("add_tools", ([BELL], {"door.bell": ["ring", " "]}), "door.bell", "empty"),
    ("add_tools", ([BELL], {"door.bell": ["ring \ud800"]}), "door.bell", "at 5"),
    ("add_tools", ([BELL], {"music.play": ["a song"]}), "music.play", "added"),
    ("remove_tools", ("music.play",), "list", "([name])"),
    ("remove_tools", (None,), "list", "([name])"),
    ("remove_tools", ([PLAY],), "music.play", "tool.name"),
    ("remove_tools", (["music.play", "no.such"],), "no.such", ""),
    *(
        ("save", (folder,), repr(folder), 'save("finder")')
        for folder in (None, 3, b"finder", ["finder"], "", " ")
    ),
]


@pytest.mark.parametrize(("call", "given", "place", "remedy"), REFUSED)
def test_what_is_refused_changes_nothing(finder, call, given, place, remedy):
    with pytest.raises(InputError) as told:
        getattr(finder, call)(*given)
    assert place in str(told.value) and remedy in str(told.value)
    assert finder.tools == (PLAY,)
    assert len(finder.search("song")) == 1


def test_what_was_saved_is_loaded_with_what_was_added_and_removed(finder, tmp_path):
    finder.add_tools([BELL, get_weather])
    finder.remove_tools(["music.play"])
    finder.save(tmp_path / "mine")
    again = load(tmp_path / "mine")
    assert again.tools == finder.tools
    for request in ("ring the bell", "play a song", "the forecast of a house"):
        assert again.search(request) == finder.search(request)
    for name in ("door.bell", "get_weather"):
        again.remove_tools([name])
        again.save(str(tmp_path / "mine"))
        assert load(tmp_path / "mine").tools == again.tools
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(InputError, match="no retriever 'mlc'; there are: bm25"):
        load(tmp_path / "mine", "mlc")


@pytest.mark.parametrize(
    "name", ["retriever/notes.txt", ".env", "tools.parquet", "versions/{}/notes.txt"]
)
def test_nothing_that_was_laid_into_what_was_saved_is_lost(finder, tmp_path, name):
    finder.save(tmp_path / "mine")
    (version,) = (tmp_path / "mine" / "versions").glob("[!.]*")
    mine = tmp_path / "mine" / name.format(version.name)
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    for added in (BELL, get_weather, {"name": "mow", "description": "Mow it."}):
        finder.add_tools([added])
        finder.save(tmp_path / "mine")
    assert mine.read_text() == "mine"
    assert load(tmp_path / "mine").tools == finder.tools


def test_nothing_is_saved_into_a_run(finder, tmp_path):
    path = write_recipe(tmp_path, engine="rules", queries=12)
    run_recipe(load_recipe(path), tmp_path / "run", until="sources")
    for place in ("run", "run/new", "run/models/zz"):
        with pytest.raises(InputError, match="in the folder of a run"):
            finder.save(tmp_path / place)
    assert not (tmp_path / "run/models").exists()


@pytest.mark.parametrize("fails", ["made", "finder.json"])
def test_a_save_that_fails_leaves_the_earlier_one(finder, tmp_path, monkeypatch, fails):
    finder.save(tmp_path / "mine")
    finder.add_tools([BELL])
    move = Path.replace

    def full(self, target):
        if fails in (self.name, Path(target).name):
            raise OSError(errno.ENOSPC, "No space left on device")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ToolbankError, match="No space left"):
        finder.save(tmp_path / "mine")
    assert load(tmp_path / "mine").tools == (PLAY,)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_a_copy_goes_its_own_way(finder, copied):
    other = copied(finder)
    other.add_tools([BELL])
    assert find(other, "ring the bell") == ["door.bell"]
    assert finder.tools == (PLAY,)


def test_what_an_earlier_version_saved_is_read_and_left(finder, tmp_path):
    finder.retriever.save(tmp_path / "retriever")
    write_tools(tmp_path / "tools.parquet", finder.tools)
    mark = {"layout": 1, "kind": "finder", "files": []}
    (tmp_path / "finder.json").write_text(json.dumps(mark))
    again = load(tmp_path)
    assert again.tools == finder.tools
    assert again.search("a song") == finder.search("a song")
    with pytest.raises(InputError, match="nothing was written") as told:
        again.save(tmp_path)
    assert "--" not in str(told.value)
    with pytest.raises(InputError, match="a file"):
        again.save(tmp_path / "tools.parquet")


def test_what_is_no_run_is_refused_by_an_error_to_catch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run, wrong in (
        ("no/such", "no such folder"),
        (".", "not the folder of a run"),
        (None, "The run is None"),
    ):
        with pytest.raises(toolbank.InputError, match=wrong):
            toolbank.load(run)
    assert issubclass(toolbank.InputError, toolbank.ToolbankError)


def test_a_damaged_file_of_a_run_is_named_with_the_remedy(tmp_path):
    path = write_recipe(tmp_path, engine="rules", queries=12)
    run_recipe(load_recipe(path), tmp_path / "run", until="retrievers")
    for name in ("bank/tools.parquet", "validation.json"):
        (tmp_path / "run" / name).write_text("{")
        with pytest.raises(InputError, match=rf"{name}.*toolbank run "):
            load(tmp_path / "run")


def test_the_package_lists_what_it_offers():
    assert dir(toolbank) == sorted(toolbank.__all__)
    assert all(getattr(toolbank, name) for name in dir(toolbank))
