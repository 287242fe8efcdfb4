import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected
from tests.shared import shared
from toolbank.bank.records import Tool
from toolbank.llm.chat import Rejection
from toolbank.requests.write.checks import (
    Checker,
    Draft,
    is_english,
    read_draft,
    read_polished,
)
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.prompts import load_examples

TOOLS = (
    Tool(name="numpy.absolute", aliases=("numpy.abs",)),
    Tool(name="numpy.mean"),
    Tool(name="numpy.log2"),
    Tool(name="numpy.linalg.norm"),
    Tool(name="numpy.nan_to_num"),
    Tool(name="pandas.DataFrame", kind="class"),
    Tool(name="numpy.sort"),
)
CHECKER_CONFIG = GenerateConfig(min_words=4, max_words=30)
CHECKER = Checker(TOOLS, CHECKER_CONFIG)
TEXT = "How far from zero are the balances of my three accounts?"


def draft(*tools, text=TEXT):
    return Draft(text, tools, "One feeds the other.")


def reason(*tools, text=TEXT, at_most=3):
    checked = CHECKER.check_draft(draft(*tools, text=text), TOOLS[:5], at_most)
    if isinstance(checked, Rejection):
        return checked.reason
    return [tool.name for tool in checked]


MEAN, ABS, LOG = "numpy.mean", "numpy.absolute", "numpy.log2"


@pytest.mark.parametrize(
    ("tools", "at_most", "expected", "detail"),
    [
        ((MEAN, "numpy.absolute"), 3, [MEAN, ABS], ""),
        ((MEAN, "numpy.abs"), 3, [MEAN, ABS], ""),
        ((MEAN, "mean"), 3, "tool-not-offered", "mean"),
        ((MEAN, "pandas.DataFrame"), 3, "tool-not-offered", "pandas.DataFrame"),
        ((MEAN, "numpy.made_up"), 3, "tool-not-offered", "numpy.made_up"),
        ((MEAN, MEAN), 3, "repeated-tool", MEAN),
        ((ABS, "numpy.abs"), 3, "repeated-tool", ABS),
        ((MEAN,), 3, "too-few-tools", "1, at least 2"),
        ((), 3, "too-few-tools", "0, at least 2"),
        ((MEAN, "numpy.nan_to_num", LOG), 2, "too-many-tools", "3, at most 2"),
    ],
)
def test_the_tools_of_a_draft_are_checked(tools, at_most, expected, detail):
    assert reason(*tools, at_most=at_most) == expected
    checked = CHECKER.check_draft(draft(*tools), TOOLS[:5], at_most)
    assert not detail or checked.detail == detail


@pytest.mark.parametrize(
    ("tools", "asked", "expected"),
    [((MEAN,), 1, ""), ((MEAN, LOG), 1, "2"), ((MEAN,), 2, "1"), ((), 1, "0")],
)
def test_a_draft_needs_the_exact_number_of_tools(tools, asked, expected):
    config = GenerateConfig(tools_per_query={1: 1, 2: 1}, min_words=4)
    checked = Checker(TOOLS, config).check_draft(draft(*tools), TOOLS[:5], asked)
    if expected:
        detail = f"{expected}, asked for {asked}"
        assert checked == Rejection("other-number-of-tools", detail)
    else:
        assert [tool.name for tool in checked] == list(tools)


EXAMPLE = "Which of our shipments from Bergen were late in March, and who carried them?"
CAREFUL = Checker(TOOLS, CHECKER_CONFIG, [EXAMPLE])


def test_texts_are_rejected_with_the_reason(update_corpus):
    file, found = CORPUS / "texts" / "texts.txt", {}
    for text in file.read_text().splitlines():
        rejection = CAREFUL.check_text(text)
        found[text] = rejection and f"{rejection.reason}: {rejection.detail}"
        if rejection and rejection.reason != "copies-example":
            assert reason(MEAN, ABS, text=text) == rejection.reason
    check_expected(file.with_name("texts.txt.tools.json"), found, update=update_corpus)


@pytest.mark.parametrize(
    "sign",
    ["\x1b[2J", "\x07", "\x7f", "\x9b31m", "\u202e", "\u2066", "\u200f", "\ud83d"],
)
def test_signs_that_steer_a_terminal_or_are_halves_are_rejected_and_not_repaired(sign):
    text = TEXT.replace("zero", f"ze{sign}ro")
    rejected = Rejection("control-sign", f"U+{ord(sign[0]):04X}")
    reply = {"tools": ["numpy.mean", "numpy.abs"], "explanation": "", "draft": text}
    for one in (reply, {**reply, "explanation": text, "draft": TEXT}):
        written = read_draft(json.dumps(one))
        assert CHECKER.check_draft(written, TOOLS[:5], 3) == rejected
    polished = read_polished(json.dumps({"query": text}), "")
    assert CHECKER.check_text(polished) == rejected


def test_plain_names_that_stand_in_a_query_are_counted_for_its_own_tools_only():
    text = "Sort the readings by their mean."
    assert CHECKER.texts.leak_words(text, TOOLS[:2]) == ("mean",)
    assert CHECKER.texts.leak_words(text, (TOOLS[1], TOOLS[6])) == ("mean", "sort")
    assert CHECKER.texts.leak_words(text, TOOLS[:1]) == ()


ENGLISH, OTHERS = (
    (CORPUS / "languages" / file).read_text().splitlines()
    for file in ("english.txt", "others.txt")
)


@pytest.mark.parametrize("text", [*ENGLISH, *OTHERS])
def test_other_languages_are_seen_and_terse_and_accented_english_passes(text):
    assert is_english(text) == (text in ENGLISH)


@given(st.text())
def test_no_text_raises(text):
    CHECKER.check_text(text)
    CHECKER.texts.leak_words(text, TOOLS)


@pytest.mark.parametrize(
    ("domain", "names"), [("numpy", "numpy"), ("pandas", "pandas"), ("aws", "boto3")]
)
def test_examples_and_nearly_all_of_a_language_models_good_replies_pass(domain, names):
    lines = shared(f"data/toolbank-names/{names}.txt").read_text().split()
    checker = Checker([Tool(name=name) for name in lines], GenerateConfig())
    for example in load_examples(domain):
        assert checker.check_text(example.query) is None, example.query
    replies = shared(f"written/{domain}.jsonl").read_text().splitlines()
    checked = [
        checker.check_text(reply["draft"]) or checker.check_text(reply["query"])
        for reply in map(json.loads, replies)
    ]
    # The only ones: "log2" in one draft, "MultiIndex" in four.
    assert {problem.reason for problem in checked if problem} <= {"identifier"}
    assert sum(map(bool, checked)) <= 4
