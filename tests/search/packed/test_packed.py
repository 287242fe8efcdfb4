"""Packing, opening and searching a packed finder."""

import re

import numpy as np
import pytest
from filelock import FileLock

import toolbank
from tests.commands.in_process import toolbank as toolbank_command
from tests.retrievers.calibration.test_calibration import fit_on_validation, make_bank
from tests.search.packed.packs import (
    FITTING,
    REQUESTS,
    TOOLS,
    UNFITTING,
    make_0_7_0,
    write_calibrated_pack,
    write_pack,
)
from toolbank.bank.records import Tool
from toolbank.retrievers.base import Retriever
from toolbank.retrievers.calibration import DEPTH
from toolbank.retrievers.settings import Bm25Config
from toolbank.search.catalogue import ToolFilter
from toolbank.search.finder import Finder
from toolbank.system.errors import InputError, ToolbankError


@pytest.fixture
def finder(tmp_path):
    write_pack(tmp_path / "finder", requests=REQUESTS)
    return Finder.open(tmp_path / "finder")


def names(answer):
    return [hit.tool.name for hit in answer.hits]


WEATHER = ToolFilter(sources=frozenset({"weather"}))


ALIKE = ["np.array", "np.Array", "run", "run()", "stop", "crm/follow-up", "crm/dentist"]
NAMED = {
    # What is said, and the tool that is named by it; none: a word of its name alone.
    **dict.fromkeys(["get_weather", "GET_WEATHER()", "forecast"], "get_weather"),
    **dict.fromkeys(["call get_weather for a song", "`get_weather`"], "get_weather"),
    **{"get /storms": "GET /storms", "Bell": "door.bell", "the bell please": None},
    **{"np.Array": "np.Array", "`np.array`": "np.array", "run()": "run()"},
    **{"call np.Array for this": "np.Array", "run": "run", "call run() on it": "run()"},
    **{"stop()": "stop", "STOP()": "stop", "follow-up": "crm/follow-up"},
    "schedule a follow-up with my dentist": None,
}


def test_the_tool_of_just_that_name_comes_first_with_score_1(tmp_path):
    alike = [Tool(name=name, summary="Do so.") for name in ALIKE]
    write_pack(tmp_path, (*TOOLS, *alike))
    finder = Finder.open(tmp_path)
    for said, tool in NAMED.items():
        best, *others = finder.answer(said).hits
        assert (best.score == 1) == bool(tool), said
        assert tool in (best.tool.name, None), said
        assert best.tool not in [hit.tool for hit in others]


def test_two_that_pack_to_one_folder_do_not_harm_each_other(tmp_path):
    version = write_pack(tmp_path)
    with (
        FileLock(tmp_path / "versions/.lock"),
        pytest.raises(ToolbankError, match="another process is packing there"),
    ):
        write_pack(tmp_path, TOOLS[:3])
    assert Finder.open(tmp_path).version == version
    assert write_pack(tmp_path, TOOLS[:3]) != version


def test_a_tool_is_a_function_whose_name_is_its_own_and_leads_back(tmp_path):
    alike = [Tool(name="door.lock"), Tool(name="door_lock"), Tool(name="a" * 300)]
    write_pack(tmp_path, alike)
    finder = Finder.open(tmp_path)
    for form in ("anthropic", "mcp"):
        functions = [finder.function(tool, form)["name"] for tool in alike]
        assert len(set(functions)) == 3
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in functions)
        assert [finder.describe(name) for name in functions] == alike


def test_only_wanted_tools_are_hits(finder):
    every = names(finder.answer("lock the house, city", k=8))
    found = names(finder.answer("lock the house, city", wanted=WEATHER))
    assert found == [name for name in every if name in ("get_weather", "GET /storms")]
    both = ToolFilter(sources=frozenset({"home"}), tags=frozenset({"sound"}))
    found = set(names(finder.answer("a song of a house", wanted=both)))
    assert found <= {"music.play", "music.stop"}
    nothing = ToolFilter(kinds=frozenset({"operation"}), tags=frozenset({"sound"}))
    assert not finder.answer("get_weather", wanted=nothing).hits
    with pytest.raises(InputError, match=r"'zebra'; there are: sound"):
        finder.answer("get_weather", wanted=ToolFilter(tags=frozenset({"zebra"})))


def test_what_is_below_min_score_is_no_hit(finder):
    every = finder.answer("song house city", k=8, min_score=0).hits
    least = every[1].score
    found = finder.answer("song house city", 8, least).hits
    assert list(found) == [hit for hit in every if hit.score >= least]
    assert not finder.answer("zebra", min_score=0.9).hits


def test_the_nearest_requests_are_there_where_they_were_packed(finder, tmp_path):
    [near] = finder.nearest_requests("rain in Rome?")
    assert near.query == "will it rain in Oslo"
    lines = [("one\u2028line, one request", ("music.play",))]
    write_pack(tmp_path / "lines", requests=lines)
    assert Finder.open(tmp_path / "lines").nearest_requests("one line")
    write_pack(tmp_path / "private")
    assert Finder.open(tmp_path / "private").nearest_requests("rain") == []


def test_a_new_version_lies_beside_the_old_one(tmp_path):
    def versions():
        return {place.name for place in (tmp_path / "versions").glob("[!.]*")}

    first = write_pack(tmp_path, requests=REQUESTS)
    old = Finder.open(tmp_path)
    second = write_pack(tmp_path, TOOLS[:4])
    assert second != first
    assert versions() == {first, second}
    assert names(old.answer("send a letter")) == ["mail.send", "mail.read"]
    assert not Finder.open(tmp_path).answer("send a letter").hits
    third = write_pack(tmp_path, TOOLS[4:])
    assert versions() == {second, third}
    assert old.tools.facets["source"] == ["home", "post", "weather"]
    assert names(old.answer("forecast", wanted=WEATHER)) == ["get_weather"]
    assert old.nearest_requests("rain in Rome?")


def test_min_score_0_always_gives_k(finder):
    answer = finder.answer("zebra", k=3, min_score=0)
    found = [(hit.tool, hit.score) for hit in answer.hits]
    assert found == [(tool, 0) for tool in TOOLS[:3]]
    assert answer.fits is None
    some = finder.answer("send a letter", k=20, min_score=0)
    assert sorted(names(some)) == sorted(tool.name for tool in TOOLS)
    few = finder.answer("send a letter", k=5, min_score=0, wanted=WEATHER)
    assert set(names(few)) == {"get_weather", "GET /storms"}
    assert not finder.answer("zebra", k=3).hits


class Scoring(Retriever):
    """Gives the first tools the scores that a request is made of."""

    def search(self, queries, k):
        (query,) = queries
        scores = np.array([query.split()[:k]], np.float32)
        return np.arange(scores.shape[1])[None], scores

    def fit(self, bank, context=None):
        self.tools = bank.tool_names

    def extend(self, tools):
        """Nothing is to be added."""


def test_scores_without_a_calibration_stay_apart_and_below_an_exact_name(finder):
    scoring = Scoring(Bm25Config())
    scoring.tools = finder.tools.names
    found = Finder({"bm25": scoring}, finder.tools, packed=True)
    hits = found.answer("1e30 90 80 40.5 40 0.5 -0.5 -70", k=8).hits
    scores = [hit.score for hit in hits]
    assert len({round(score, 6) for score in scores}) == 8
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[-1] < scores[0] < 1


def test_scores_are_learnt_of_the_retriever_as_it_was_packed(tmp_path):
    bank = make_bank()
    asked = []

    def calibrate(retriever, packed_from):
        asked.append(retriever)
        assert packed_from.index.places.flags.writeable, "what was packed"
        return fit_on_validation(retriever, bank)

    write_pack(tmp_path, bank.tools, calibrate=calibrate)
    (retriever,) = asked
    assert not retriever.index.places.flags.writeable, "not what is read of a file"
    finder = Finder.open(tmp_path)
    query = bank.queries[0].query
    wanted = fit_on_validation(finder.retrievers["bm25"], bank).chances(
        retriever, [query], retriever.search([query], DEPTH)
    )
    hits = finder.answer(query).hits
    np.testing.assert_allclose([hit.score for hit in hits], wanted[0][: len(hits)])


@pytest.fixture
def calibrated(tmp_path):
    write_calibrated_pack(tmp_path)
    return Finder.open(tmp_path)


def test_the_threshold_marks_an_answer_and_takes_no_hit(calibrated):
    for asked, fits in ((FITTING, True), (UNFITTING, False)):
        for answer in calibrated.answer_many(asked):
            assert answer.fits is fits and answer.hits
            assert (answer.hits[0].score >= 0.5) is fits
    best = calibrated.answer(UNFITTING[0]).hits[0].score
    for least in (0, best, (1 + best) / 2):
        answer = calibrated.answer(UNFITTING[0], min_score=least)
        assert answer.fits is False
        assert all(hit.score >= least for hit in answer.hits)
    assert not answer.hits
    high = calibrated.answer(FITTING[0], min_score=0.999)
    assert high.fits is True and not high.hits
    assert calibrated.answer("zebra").fits is False, "no tool is found"
    assert calibrated.answer("mail.send").fits is True, "an exact name"
    for source, fits in (("home", True), ("post", False)):
        wanted = ToolFilter(sources=frozenset({source}))
        assert calibrated.answer("play a song", wanted=wanted).fits is fits


def test_the_command_prints_the_mark_what_scores_mean_and_the_hits(tmp_path):
    def search(*arguments):
        return toolbank_command("search", "finder", *arguments, cwd=tmp_path)

    write_pack(tmp_path / "finder")
    assert "No tool is found" in search("zebra").stdout
    done = search("zebra", "--min-score", "0", "--k", "8")
    assert len(done.stdout.splitlines()) == 8
    assert "by bm25; " in done.stderr and "to calibrate on" in done.stderr
    [hit] = toolbank.load(tmp_path / "finder").search("send a letter to my aunt", k=1)
    assert hit.tool == TOOLS[6]
    write_calibrated_pack(tmp_path / "finder")
    for asked, mark in ((FITTING[1], "fits: true"), (UNFITTING[1], "fits: false")):
        done = search(asked)
        first, *hits = done.stdout.splitlines()
        assert first.startswith(mark) and "mail.send" in hits[0]
        assert "probability" in done.stderr


@pytest.mark.parametrize("one", [False, True])
def test_a_pack_of_version_0_7_0_is_searched_without_its_calibration(tmp_path, one):
    version = make_0_7_0(tmp_path, write_calibrated_pack(tmp_path))
    assert (tmp_path / "versions" / version / "calibration" / "bm25").is_dir()
    finder = Finder.open(tmp_path, one=one)
    for answer in finder.answer_many((*FITTING, *UNFITTING)):
        assert answer.fits is None and answer.hits
    said = finder.explain_scores("bm25")
    assert "earlier version" in said and "toolbank pack RUN --out DIR" in said
    done = toolbank_command("search", tmp_path, FITTING[0], cwd=tmp_path)
    assert said in done.stderr and "fits" not in done.stdout


def test_a_pack_has_no_calibration_once_tools_are_added(calibrated, tmp_path):
    version = calibrated.version
    calibrated.remove_tools(["music.stop"])
    assert calibrated.answer(FITTING[0]).fits is True
    bake = Tool(name="oven.bake", summary="Bake a cake.", source="kitchen")
    calibrated.add_tools([bake])
    kitchen = ToolFilter(sources=frozenset({"kitchen"}))
    answer = calibrated.answer("bake a cake", wanted=kitchen)
    assert (names(answer)[0], answer.fits) == ("oven.bake", None)
    assert "tools were added" in calibrated.explain_scores("bm25")
    calibrated.save(tmp_path)
    again = Finder.open(tmp_path)
    assert again.version != version
    assert again.answer("bake a cake").hits == calibrated.answer("bake a cake").hits
    assert again.explain_scores("bm25") == calibrated.explain_scores("bm25")


def test_filters_pins_and_exact_names_are_those_of_any_finder(finder):
    own = Finder(finder.retriever, TOOLS)
    own.pin(["mail.read"])
    with pytest.raises(InputError, match=r"mail\.burn.*no tool of this name"):
        own.pin(["mail.burn"])
    for asked in ("forecast", "get /storms", "the last letter of the city"):
        answer = own.answer(asked, wanted=WEATHER)
        assert answer.hits == finder.answer(asked, wanted=WEATHER).hits
        assert [tool.name for tool in answer.pinned] == ["mail.read"]
    own.remove_tools(["mail.read"])
    assert own.answer("forecast").pinned == ()
