"""Requests that no tool fits: how tools are grouped, what is read of replies, and the splits."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.servers.chat import Answer, ChatServer
from tests.world import SHOP, sentence
from toolbank.bank.bank import QueryLabels
from toolbank.bank.records import Query, Tool
from toolbank.bank.split import SplitConfig, make_units
from toolbank.llm.journal import Journal
from toolbank.requests.missing import MissingConfig
from toolbank.requests.missing.groups import draw_groups, group_tools
from toolbank.requests.missing.settle import settle_missing, split_missing
from toolbank.requests.missing.write import write_missing
from toolbank.system.errors import ToolbankError

NAMES = st.lists(
    st.from_regex(r"[a-c](\.[a-z]{1,2}|/[a-z]{1,2})?", fullmatch=True), unique=True
)


@given(NAMES)
def test_each_tool_is_in_one_group_of_at_most_24(names):
    groups = group_tools([Tool(name=name) for name in names])
    grouped = Counter(tool.name for group in groups for tool in group.tools)
    assert grouped == Counter(names)
    assert all(len(group.tools) <= 24 for group in groups)
    assert len({group.name for group in groups}) == len(groups)


def test_a_large_module_is_parted_evenly_and_servers_stay_apart():
    tools = [Tool(name=f"lib.f{n:02}") for n in range(50)]
    tools += [Tool(name=name) for name in ("mail/send", "mail/read", "alone", "single")]
    sizes = {group.name: len(group.tools) for group in group_tools(tools)}
    assert sizes["mail"] == 2
    assert sorted(sizes.values()) == [2, 2, 16, 17, 17]


def test_a_larger_draw_of_groups_contains_the_smaller():
    groups = group_tools([Tool(name=f"m{n}.f") for n in range(9)])
    few, more = (draw_groups(groups, n, seed=1) for n in (3, 6))
    assert len(few) == 3 and all(group in more for group in few)
    assert draw_groups(groups, None, 1) == groups


def write(server, folder, tools=SHOP, **settings):
    config = MissingConfig(model="m", base_url=server.url, per_group=3, **settings)
    with Journal(folder / "journal.sqlite") as journal:
        return write_missing(tools, config, domain="shop", seed=0, journal=journal)


def reply(*requests):
    rows = [{"request": text, "lacks": "do it"} for text in requests]
    return json.dumps({"requests": rows})


def test_every_request_is_accepted_or_has_a_reason(tmp_path):
    fine = sentence(1)
    texts = [fine, fine.replace("Weigh", "weigh"), "Call shop.find_orders for my aunt."]
    with ChatServer(lambda _: Answer.text(reply(*texts, sentence(2)))) as server:
        written = write(server, tmp_path)
    counts = written.value.content["counts"]
    assert [one.query for one in written.value.queries] == [fine]
    assert counts["rejected"] == {"identifier": 1, "near-duplicate": 1, "too-many": 1}
    [query] = written.value.queries
    assert query.tools == () and query.explanation == "do it" and query.domain == "shop"
    reasons = [row["reason"] for row in written.value.content["not_accepted"]]
    assert sorted(reasons) == sorted(counts["rejected"])


def test_fewer_requests_are_declined_and_the_group_is_shown(tmp_path):
    with ChatServer(lambda _: Answer.text(reply(sentence(1)))) as server:
        counts = write(server, tmp_path).value.content["counts"]
    assert (counts["accepted"], counts["declined"]) == (1, 2)
    [call] = server.calls
    assert all(tool.name in call.prompt for tool in SHOP)


@pytest.mark.parametrize("text", ["no JSON", '{"requests": 3}', '{"requests": [3]}'])
def test_a_reply_of_another_form_is_an_error_that_says_why(tmp_path, text):
    with (
        ChatServer(lambda _: Answer.text(text)) as server,
        pytest.raises(ToolbankError) as error,
    ):
        write(server, tmp_path)
    assert "toolbank preview" in str(error.value)


def query(name, text, split=None):
    return Query(id=name, query=text, tools=(), split=split)


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40), st.integers(0, 9)
)
def test_near_duplicates_share_a_split(letters, seed):
    rows = [
        query(
            str(n),
            f"Book the {letter} room for ten people on {letter} street please"
            + "!" * (n % 2),
        )
        for n, letter in enumerate(letters)
    ]
    split = split_missing(rows, SplitConfig(test=0.3, validation=0.2), seed)
    of = {}
    for letter, row in zip(letters, split, strict=True):
        assert of.setdefault(letter, row.split) == row.split
    assert split == split_missing(rows, SplitConfig(test=0.3, validation=0.2), seed)


def test_own_splits_stay():
    rows = [query(str(n), sentence(n), "test" if n < 2 else None) for n in range(20)]
    split = split_missing(rows, SplitConfig(validation=0.25, test=0.25), 0)
    counts = Counter(row.split for row in split)
    assert [row.split for row in split[:2]] == ["test", "test"]
    assert counts["test"] == 2 and counts["validation"] in (4, 5)


def test_a_smaller_share_of_train_is_one_of_these_too():
    rows = [query(str(n), sentence(n)) for n in range(20)]
    split = split_missing(rows, SplitConfig(test=0.2, train_share=0.5), 0)
    counts = Counter(row.split for row in split)
    assert counts["test"] == 4 and counts[None] == counts["train"]


@pytest.mark.parametrize(
    ("split", "tool", "by", "expected"),
    [
        ("train", "a.x", "random", "train"),
        ("train", "a.held", "random", None),
        ("test", "a.held", "random", "test"),
        ("train", "b.y", "tool", None),
        ("train", "c.new", "tool", "train"),
    ],
)
def test_a_request_that_a_tool_fits_keeps_its_split_where_nothing_leaks(
    split, tool, by, expected
):
    tools = [Tool(name=name) for name in ("a.x", "a.held", "b.y", "c.new")]
    queries = [
        Query(id="1", query="one", tools=("a.x",), split="train"),
        Query(id="2", query="two", tools=("b.y",), split="test"),
    ]
    missing = [query("m", "it", split), query("n", "none"), query("o", "other")]
    labels = {"m": QueryLabels(needed=[tool]), "n": QueryLabels(aside="nothing fits")}
    units = make_units(by, tools)
    settled = settle_missing(missing, labels, queries, {"a.held"}, units)
    assert [(one.id, one.tools, one.split) for one in settled.fitted] == [
        ("m", (tool,), expected)
    ]
    assert (settled.nothing_fits, settled.not_graded) == (1, 1)


def test_two_requests_for_one_tool_are_not_in_two_splits():
    tools = [Tool(name="c.new")]
    missing = [query("m", "it", "train"), query("n", "that", "test")]
    labels = {one.id: QueryLabels(needed=["c.new"]) for one in missing}
    units = make_units("tool", tools)
    settled = settle_missing(missing, labels, [], (), units)
    assert [one.split for one in settled.fitted] == ["train", None]
