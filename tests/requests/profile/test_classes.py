import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Query, Tool
from toolbank.requests.profile.classes import (
    class_difficulty,
    measure_overlap,
    measure_wording,
    profile_bank,
)

TOOLS = (
    Tool(name="lab.sort_rows", summary="Put rows in ascending order."),
    Tool(name="lab.mean", summary="Average of numbers.", aliases=("lab.average",)),
    Tool(name="lab.plot", summary="Draw a chart."),
    Tool(name="lab.sketch", summary="Draft a picture of values."),
    *(Tool(name=f"lab.filler{n}", summary=f"Nothing {n}.") for n in range(20)),
)
words = st.lists(
    st.sampled_from(["sea", "Sorted", "SORT", "row", "the", "of", "éclair"])
)


def make_bank(text, tools=("lab.mean",), labels=()):
    query = Query(id="q", query=text, tools=tools)
    return Bank(TOOLS, (query,), labels=labels)


def profile(*args, **keys):
    [found] = profile_bank(make_bank(*args, **keys), None)
    return found


@given(words, words)
def test_the_overlap_is_symmetric_and_bounded(one, other):
    first, second = {*one}, {*other}
    found = measure_overlap(first, second)
    assert found == measure_overlap(second, first) and 0 <= found <= 1
    if first and second:
        assert (found == 1) == (first <= second or second <= first)
        assert (found == 0) == first.isdisjoint(second)


@given(words)
def test_case_does_not_count(text):
    queries = [
        Query(id="q", query=change(" ".join(text)), tools=("lab.sort_rows",))
        for change in (str.lower, str.upper, str.title)
    ]
    assert len(set(measure_wording(make_bank(""), queries))) == 1


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("Sort these rows by average", "tool-words"),
        ("Tell me the mean weight of all apples picked during autumn", "tool-words"),
        (
            "How do these prices, in numbers sold before noon or later, look today?",
            "paraphrase",
        ),
        ("What does a typical customer pay?", "outcome"),
    ],
)
def test_wording_follows_from_shared_words(text, wording):
    tools = ("lab.sort_rows", "lab.mean") if "Sort" in text else ("lab.average",)
    if wording == "paraphrase":
        tools = ("lab.mean", "lab.plot", "lab.sort_rows")
    assert profile(text, tools).wording == wording


def test_verified_labels_count_and_a_change_of_labels_outdates_the_profile():
    text = "Draft a picture"
    first = profile(text, ("lab.plot", "lab.mean"))
    assert (first.labels, first.n_fits, first.fits) == ("first", 2, "2-3")
    labels = (
        Label(query="q", tool="lab.plot", grade="needed"),
        Label.alternative("q", "lab.sketch", "lab.plot", ""),
    )
    verified = profile(text, ("lab.plot", "lab.mean"), labels=labels)
    assert (verified.labels, verified.fits) == ("verified", "2-3")
    # The alternative is found in place of the needed tool.
    assert verified.bm25_ranks == (1,) and verified.difficulty == "easy"
    assert first.bm25_ranks[1] == 0 and first.difficulty == "hard"
    bank = make_bank(text, ("lab.plot", "lab.mean"), labels)
    for found, known in ((first, False), (verified, True)):
        one = Bank(bank.tools, bank.queries, labels=labels, profiles={"q": found})
        assert ("q" in one.classes) == known


def test_an_alias_is_the_same_tool_and_unknown_tools_have_no_words():
    assert profile("x", ("lab.mean", "lab.average")).fits == "1"
    strange = profile("x", ("no.such",))
    assert (strange.wording, strange.difficulty, strange.bm25_ranks) == (
        None,
        "hard",
        (0,),
    )


@pytest.mark.parametrize(
    ("ranks", "difficulty"),
    [
        ([(1, 10)], "easy"),
        ([(1, 11)], "medium"),
        ([(0, 11)], "hard"),
        ([(1, 50), (0, 10)], "easy"),
        ([(0, 50), ()], "hard"),
    ],
)
def test_difficulty_is_by_the_better_rank_of_each_tool(ranks, difficulty):
    assert class_difficulty(*ranks) == difficulty
