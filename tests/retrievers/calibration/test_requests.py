import json
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS
from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Ask, Provenance, Query, Tool
from toolbank.datasets.jsonl import LabelledRequests
from toolbank.retrievers.calibration_requests import (
    LEAST,
    TrainRequests,
    choose_requests,
    find_plain_encoder,
)
from toolbank.system.errors import InputError

TOOLS = tuple(Tool(name=f"kitchen.{n}", summary=f"Dish {n}.") for n in range(30))


def by_words(texts):
    """Unit vectors of which words a text has: of different words, the cosine is 0."""
    vectors = np.zeros((len(texts), 4096), np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in text.split():
            row[crc32(word.encode()) % 4096] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def ask(n, text, split=None):
    return Query(
        id=f"{split}-{n}", query=text, tools=(TOOLS[n % 30].name,), split=split
    )


def make_bank(near, n=25, asks=False):
    """`near` of n validation requests have nine words of ten of a train request."""
    texts = [" ".join(f"w{n}x{i}" for i in range(10)) for n in range(n)]
    train = [ask(i, text, "train") for i, text in enumerate(texts)]
    validation = [
        ask(i, f"please {text[text.index(' ') + 1 :]}", "validation")
        if i < near
        else ask(i, f"something quite else nr{i}", "validation")
        for i, text in enumerate(texts)
    ]
    if not asks:
        return Bank(TOOLS, (*train, *validation))
    asked = tuple(Ask(tool=query.tools[0], kind="", ask=query.query) for query in train)
    return Bank(TOOLS, tuple(validation), asks=asked)


def choose(bank, files=(), **options):
    train = TrainRequests(bank, lambda: by_words)
    return choose_requests(bank, files, train, **options)


def file_of(n, name="mine", choices=(), tools=None, text="in my own words {}"):
    queries = tuple(
        Query(id=str(i), query=text.format(i), tools=tools or (TOOLS[i % 30].name,))
        for i in range(n)
    )
    return LabelledRequests(name, queries, 0, frozenset(choices))


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize(("near", "used"), [(0, 25), (4, 25), (5, 0), (25, 0)])
def test_validation_requests_count_where_under_a_fifth_are_copies(near, used, asks):
    chosen = choose(make_bank(near, asks=asks))
    assert len(chosen.queries) == used
    assert (chosen.near["validation"].n, chosen.near["validation"].near) == (25, near)
    if used:
        assert chosen.origin == "25 validation requests" and not chosen.reason
    else:
        assert f"{near} of 25 validation requests" in chosen.reason
        assert len(chosen.warn_of_near()) == 1


def test_labelled_files_come_before_validation_requests_and_choices_after_labels():
    bank = make_bank(0)
    chosen = choose(bank, [file_of(20), file_of(30, "log", map(str, range(30)))])
    assert {query.query for query in chosen.queries} == {
        f"in my own words {n}" for n in range(20)
    }
    choices = file_of(30, "log", map(str, range(30)), text="chosen {}")
    chosen = choose(bank, [file_of(19), choices])
    assert len(chosen.queries) == 49 and "choices" in chosen.origin
    assert len(choose(bank, [file_of(19)]).queries) == 25


def test_files_too_few_are_named_with_what_is_wrong_with_validation():
    reason = choose(make_bank(25), [file_of(7)]).reason
    assert "25 of 25" in reason and "7 usable requests of the 20" in reason
    assert "reference's own words" in choose(make_bank(0), copied=True).reason
    assert "3 validation requests" in choose(make_bank(0, n=3)).reason
    assert choose(make_bank(0), [file_of(20)], copied=True).queries


def test_labels_of_missing_tools_and_texts_that_were_learnt_are_skipped_and_counted():
    bank = make_bank(25)
    learnt = tuple(
        query.model_copy(update={"query": f"{query.query.upper()}!", "split": None})
        for query in bank.split("train")[:2]
    )
    gone = file_of(3, "old", tools=("kitchen.0", "kitchen.gone"), text="gone {}")
    file = LabelledRequests("mine", (*file_of(20).queries, *learnt), 0)
    chosen = choose(bank, [file, gone], unreadable=["other.jsonl"])
    assert len(chosen.queries) == 20
    assert sorted(chosen.skipped.values()) == [1, 2, 3]
    told = chosen.describe_skipped()
    assert "lacks" in told and "other.jsonl" in told and "2: a train request" in told


def test_a_text_counts_once_with_the_tools_of_all_lines_that_have_it():
    twice = LabelledRequests(
        "log",
        tuple(
            Query(id=f"{n}.{t}", query=f"own {n}", tools=(TOOLS[t].name,))
            for n in range(19)
            for t in (1, 2)
        ),
        0,
    )
    bank = make_bank(25)
    assert not choose(bank, [twice]).queries
    more = LabelledRequests("more", file_of(1).queries, 0)
    first = choose(bank, [twice, more]).queries[0]
    assert first.tools == (TOOLS[1].name, TOOLS[2].name)


def test_a_line_of_a_file_has_not_the_verified_labels_of_a_bank_request():
    bank = make_bank(25)
    label = Label.alternative("3", "kitchen.5", "kitchen.3", "serves as well")
    bank = Bank(bank.tools, bank.queries, labels=(label,))
    for query in choose(bank, [file_of(20)]).queries:
        assert bank.alternatives(query) == ()


def test_validation_requests_of_a_tool_that_is_gone_are_not_calibrated_on():
    bank = make_bank(0)
    left = Bank(TOOLS[:21], bank.queries)
    assert len(choose(left).queries) == 21
    assert not choose(Bank(TOOLS[:19], bank.queries)).queries


def test_without_the_encoder_files_count_and_validation_requests_do_not():
    def find_none():
        raise InputError("all-MiniLM-L6-v2 is not here. Install it")

    bank = make_bank(0)
    train = TrainRequests(bank, find_none)
    chosen = choose_requests(bank, [], train)
    assert "all-MiniLM-L6-v2 is not here. Install it" in chosen.reason
    assert chosen.near["validation"].near is None and not chosen.warn_of_near()
    assert len(choose_requests(bank, [file_of(20)], train).queries) == 20
    untaught = Bank(TOOLS, bank.split("validation"))
    chosen = choose_requests(untaught, [], TrainRequests(untaught, find_none))
    assert len(chosen.queries) == 25, "nothing was learnt that they could repeat"


@given(
    near=st.integers(0, 40),
    n=st.integers(1, 40),
    labelled=st.integers(0, 30),
    choices=st.integers(0, 30),
)
def test_there_are_twenty_requests_or_a_reason(near, n, labelled, choices):
    bank = make_bank(min(near, n), n)
    log = file_of(choices, "log", map(str, range(choices)), text="chosen {}")
    chosen = choose(bank, [file_of(labelled), log])
    assert bool(chosen.queries) != bool(chosen.reason)
    assert not chosen.queries or len(chosen.queries) >= LEAST
    of_people = labelled + choices >= LEAST
    enough = n >= LEAST and min(near, n) < 0.2 * n
    assert bool(chosen.queries) == (of_people or enough)


def test_the_plain_encoder_tells_a_copy_from_another_way_to_ask():
    for asked in json.loads((CORPUS / "orders" / "copies.json").read_text()):
        bank = Bank(TOOLS, (ask(0, asked["train"], "train"),))
        requests = TrainRequests(bank, find_plain_encoder)
        near = requests.measure([asked["copy"], asked["other"]]).near
        assert near == 1, requests.why_unknown


def test_requests_that_no_tool_fits_are_those_of_the_bank_or_of_a_file():
    made = Provenance(attempt=0, engine="", model="", prompt_hash="", seed=0)
    rows = [
        ("own", "train", None, None),
        ("graded", "validation", made, "aside"),
        ("not graded", "train", made, None),
        ("of the test", "test", None, None),
    ]
    missing = tuple(
        Query(id=text, query=text, tools=(), split=split, provenance=origin)
        for text, split, origin, _ in rows
    )
    labels = tuple(Label(query=t, grade="aside") for t, *_, grade in rows if grade)
    bank = replace(make_bank(0), missing=missing, labels=labels)
    file = replace(file_of(3), missing=(Query(id="x", query="of a file", tools=()),))
    assert choose(bank, [file]).missing == ("own", "graded")
    chosen = choose(make_bank(0), [file])
    assert chosen.missing == ("of a file",) and "evaluate.on" in chosen.missing_origin
    assert not choose(make_bank(0)).missing_origin
