"""The rules engine through the real loop: offers, write, checks, polish, checks."""

import asyncio
import itertools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.engines import create_engine
from tests.world import WORDS
from toolbank.bank.records import SeeAlso, Tool
from toolbank.llm.chat import ChatRequest, PolishTask, WriteTask
from toolbank.requests.rules.engine import write_request
from toolbank.requests.rules.wording import Profiles
from toolbank.requests.write.checks import Checker, read_draft, read_polished
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.near_duplicates import NearDuplicates
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource

CONFIG = GenerateConfig(engine="rules")
SEED = 7


@pytest.fixture(scope="module")
def tools():
    """Two real APIs, one of a style of docstring that has no sections."""
    return tuple(read_package(PythonSource(package="numpy.fft")).tools) + tuple(
        read_package(PythonSource(package="statistics")).tools
    )


@pytest.fixture(scope="module")
def engine(tools):
    return create_engine(CONFIG, tools=tools, seed=SEED)


def write(engine, tools, attempt):
    """The offer, draft and polished reply of an attempt."""

    def answer(step, task):
        request = ChatRequest(attempt, step, (), {}, task)
        return asyncio.run(engine.answer(request)).text

    by_name = {tool.name: tool for tool in tools}
    offer = engine.offers.offer(attempt)
    offered = tuple(by_name[name] for name in offer.tools)
    task = WriteTask(offered, offer.at_most, offer.at_least)
    draft = read_draft(answer("write", task))
    if draft.declined:
        return offer, draft, None
    used = tuple(by_name[name] for name in draft.tools)
    reply = answer("polish", PolishTask(draft.draft, used))
    return offer, draft, read_polished(reply, draft.draft)


def find_problem(checker, tools, offer, draft, polished):
    """Why the checks reject what was written, or None."""
    offered = [tool for tool in tools if tool.name in offer.tools]
    checked = checker.check_draft(draft, offered, offer.at_most)
    return checker.check_text(polished) if isinstance(checked, tuple) else checked


def test_nearly_all_it_writes_is_accepted(engine, tools):
    checker = Checker(tools, CONFIG)
    texts = []
    seen = NearDuplicates(CONFIG.near_duplicate, texts.__getitem__)
    for attempt in range(200):
        offer, draft, polished = write(engine, tools, attempt)
        if (
            polished
            and not find_problem(checker, tools, offer, draft, polished)
            and seen.find_like(polished) is None
        ):
            seen.add(polished)
            texts.append(polished)
    assert len(texts) >= 190


def test_every_tool_is_dealt_equally_often_and_offered_once(engine, tools):
    offers = [engine.offers.offer(attempt) for attempt in range(3 * len(tools))]
    assert set(Counter(offer.tools[0] for offer in offers).values()) == {3}
    for offer in offers:
        assert len(set(offer.tools)) == CONFIG.offered
        assert 2 <= offer.at_most <= CONFIG.most_tools


def test_replies_do_not_depend_on_the_hash_seed():
    script = (
        "import tests.requests.write.writers.test_rules as t; from tests.engines import create_engine;"
        "from toolbank.sources.python.package import read_package as r;"
        "from toolbank.sources.python.settings import PythonSource as S;"
        "tools = r(S(package='statistics')).tools;"
        "engine = create_engine(t.CONFIG, tools=tools, seed=7);"
        "print(engine.identity, [t.write(engine, tools, n) for n in range(20)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            cwd=Path(__file__).parents[4],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_tool_is_asked_for_in_many_ways(engine, tools):
    drafts = Counter()
    for attempt in range(6 * len(tools)):
        _, draft, polished = write(engine, tools, attempt)
        if polished and "statistics.median" in draft.tools:
            drafts[polished] += 1
    assert len(drafts) >= 6


def test_the_draft_has_steps_and_the_polished_request_has_not(engine, tools):
    for attempt in range(40):
        _, draft, polished = write(engine, tools, attempt)
        if polished:
            assert ", " in draft.draft
            assert not polished.startswith(("First", "Step one", "To begin"))
            assert "Finally," not in polished


STRANGERS = tuple(
    Tool(name=f"{word}.{word}x", summary=f"Return the {word}.") for word in WORDS
)
BARE = tuple(Tool(name=f"api.call{n}", kind="operation") for n in range(12))


@pytest.mark.parametrize("tools", [STRANGERS, BARE], ids=["strangers", "bare"])
def test_it_declines_where_nothing_belongs_together(tools):
    engine = create_engine(CONFIG, tools=tools, seed=SEED)
    _, draft, _ = write(engine, tools, 0)
    assert draft.declined
    assert draft.reason


def test_linked_tools_are_written_about_together_and_the_reason_is_named():
    linked = (
        Tool(
            name="shop.sort_sales",
            summary="Sort the sales of a shop.",
            see_also=(SeeAlso(name="totals.add", description="Add up the sales."),),
        ),
        Tool(name="totals.add", summary="Add up a list of numbers."),
    )
    config = GenerateConfig(engine="rules", offered=2, max_tools=2)
    engine = create_engine(config, tools=linked, seed=SEED)
    _, draft, _ = write(engine, linked, 0)
    assert set(draft.tools) == {"shop.sort_sales", "totals.add"}
    assert "links" in draft.explanation


def say_all(summaries, **more):
    """All that is said of tools, by their names and summaries."""
    tools = [Tool(name=name, summary=text, **more) for name, text in summaries.items()]
    profiles = Profiles(tools)
    for n, seed in itertools.product(range(len(tools)), range(20)):
        yield write_request([profiles[n]], Random(seed))


def test_what_a_service_does_is_asked_for_in_its_own_words():
    services = {
        "log_out": "Logs the user out.",
        "find_restaurants": "Find restaurants near a place.",
        "create_event": "Create an event in the calendar.",
        "tell_weather": "Tell the weather of a place.",
        "send_email": "Send an email to one or several people.",
    }
    parameters = {"type": "object", "properties": {"to": {"type": "string"}}}
    told = " ".join(say_all(services, parameters=parameters)).lower()
    for text in (
        "restaurants near a place",
        "create an event in the calendar",
        "tell the weather of a place",
        "log the user out",
        "an email to one or several people",
    ):
        assert text in told
    for text in ("tenfold", "new values", "the input", "the tell", "my file"):
        assert text not in told


def test_a_library_that_takes_no_arrays_is_asked_of_none():
    methods = {
        "web.URL.with_host": "Return a new URL with host replaced.",
        "web.URL.relative": "Return a relative part of the URL.",
        "web.URL.with_name": "Return a new URL with name replaced.",
        "web.URL.update_query": "Return a new URL with query part updated.",
    }
    for told in say_all(methods, kind="method"):
        assert "URL" in told
        assert not re.search(r"\b(?:rows|prices|readings|students|lists?)\b", told)


def test_it_writes_for_one_tool_and_for_exact_numbers(tools):
    config = GenerateConfig(engine="rules", tools_per_query={1: 2, 2: 1, 4: 1})
    engine = create_engine(config, tools=tools, seed=SEED)
    checker = Checker(tools, config)
    numbers, rejected = Counter(), Counter()
    for attempt in range(80):
        offer, draft, polished = write(engine, tools, attempt)
        if draft.declined:
            continue
        assert len(draft.tools) == offer.at_most == offer.at_least
        problem = find_problem(checker, tools, offer, draft, polished)
        rejected[offer.at_most] += problem is not None
        numbers[offer.at_most] += 1
        if offer.at_most == 1:
            assert draft.explanation == "One tool serves it."
            of_several = ("First", "Then", "Finally", "Step", "Just this")
            assert not polished.startswith(of_several)
    assert min(numbers[n] for n in (1, 2, 4)) > 10
    assert rejected[1] < numbers[1] / 4


def test_its_hands_are_related_unless_the_recipe_names_another_sampling(tools):
    made = {
        sampling: create_engine(
            GenerateConfig(engine="rules", sampling=sampling), tools=tools, seed=SEED
        ).offers
        for sampling in (None, "related", "deck")
    }
    assert made["deck"] is None
    first = [made[None].offer(n) for n in range(20)]
    assert first == [made["related"].offer(n) for n in range(20)]
