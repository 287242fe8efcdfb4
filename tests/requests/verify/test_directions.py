"""Candidates from several directions: how they are found, merged and kept within a budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask, Query, SeeAlso, Tool
from toolbank.requests.verify.candidates import pool_requests
from toolbank.requests.verify.directions import (
    Directions,
    fuse,
    merge_rankings,
    share_out,
    split_parts,
)
from toolbank.requests.verify.further import FreeAnswer, FurtherTools

names = st.sampled_from([f"t{number}" for number in range(12)])
rankings = st.dictionaries(
    st.sampled_from(("usage", "name", "words")), st.lists(names, unique=True)
)
groups = st.lists(
    st.tuples(st.sampled_from((1.0, 3.0, 6.0)), st.lists(rankings, max_size=3)),
    max_size=4,
)


@given(groups, st.integers(-2, 15), st.sets(names))
def test_a_merge_keeps_the_budget_and_leaves_out_what_is_taken(groups, most, taken):
    merged = merge_rankings(groups, most, taken)
    everything = {
        name
        for _, sources in groups
        for one in sources
        for r in one.values()
        for name in r
    }
    assert len(merged) == max(0, min(most, len(everything - taken)))
    assert not merged.keys() & taken
    for name, directions in merged.items():
        found = {
            by
            for _, sources in groups
            for one in sources
            for by, ranking in one.items()
            if name in ranking
        }
        assert set(directions) == found


@given(groups, st.integers(0, 15), st.randoms())
def test_a_merge_does_not_depend_on_the_order_of_directions(groups, most, random):
    def shuffle(one):
        keys = list(one)
        random.shuffle(keys)
        return {key: one[key] for key in keys}

    shuffled = [(share, list(map(shuffle, sources))) for share, sources in groups]
    once, again = (merge_rankings(one, most, ()) for one in (groups, shuffled))
    assert list(once.items()) == list(again.items())


@given(rankings)
def test_what_is_first_everywhere_is_first_when_fused(one):
    first = {ranking[0] for ranking in one.values() if ranking}
    if len(first) == 1:
        assert fuse(one)[:1] == list(first)
    assert set(fuse(one)) == {name for ranking in one.values() for name in ranking}


def test_groups_get_their_shares_and_what_one_lacks_goes_to_the_others():
    many, few = [[f"a{n}" for n in range(20)]], [["b0", "b1", "b2"]]
    taken = share_out([(3.0, many), (1.0, few)], 8)
    assert sum(name.startswith("b") for name in taken) == 2
    assert len(share_out([(3.0, many), (1.0, few)], 20)) == 20
    assert share_out([(1.0, [["x", "y"], ["x", "z"]])], 3) == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("Sort it.", ["Sort it."]),
        (
            "Sort the rows by date. Then keep the last ten, and write them to disk",
            ["Sort the rows by date.", "Then keep the last ten", "write them to disk"],
        ),
    ],
)
def test_a_text_is_split_into_clauses(text, parts):
    assert split_parts(text) == parts


def tool(name, summary, *see):
    references = tuple(SeeAlso(name=other) for other in see)
    return Tool(name=f"lab.{name}", summary=summary, see_also=references)


TOOLS = (
    tool("rows.sort_rows", "Put the rows of a table in order.", "rank_rows"),
    tool("rows.rank_rows", "Number places from best to worst."),
    tool("mail.send_letter", "Send a letter to a customer.", "lab.rows.sort_rows"),
    tool("mail.sort_letters", "Arrange post by street."),
    tool("heat.melt", "Warm a metal until it is liquid."),
    tool("heat.fill_gaps", "Replace missing readings by a value."),
    tool("heat.drop_gaps", "Remove missing readings."),
)
QUERIES = (
    Query(
        id="q0",
        query="Order the table, please.",
        tools=("lab.rows.sort_rows",),
        explanation="The rows are sorted, and the metal is warmed until it is liquid.",
    ),
    Query(id="q1", query="Warm it up until it flows.", tools=("lab.heat.melt",)),
)
BANK = Bank(
    TOOLS, QUERIES, asks=(Ask(tool="lab.heat.melt", kind="plain", ask="Warm it."),)
)


@pytest.fixture(scope="module")
def directions():
    return Directions(BANK)


def test_neighbours_are_found_by_references_module_and_name(directions):
    near = directions.near("lab.rows.sort_rows")
    assert set(near["see-also"]) == {"lab.rows.rank_rows", "lab.mail.send_letter"}
    assert near["module"] == ["lab.rows.rank_rows"]
    assert set(near["name"][:2]) == {"lab.rows.rank_rows", "lab.mail.sort_letters"}
    assert all("lab.rows.sort_rows" not in ranking for ranking in near.values())


@pytest.mark.parametrize("most", [1, 3, 5, 50])
def test_labels_are_always_in_and_the_budget_is_kept(directions, most):
    pooled = pool_requests(directions, QUERIES, most)
    for query in QUERIES:
        rows = pooled[query.id]
        assert [row.tool for row in rows[: len(query.tools)]] == list(query.tools)
        assert len(rows) == len({row.tool for row in rows}) == min(most, len(TOOLS))
        assert all(row.found_by and row.call_number == 1 for row in rows)
    if most == 5:
        found = {row.tool: row.found_by for row in pooled["q0"]}
        assert "part-descriptions" in found["lab.heat.melt"]


def test_the_order_of_tools_makes_no_difference(directions):
    turned = Directions(Bank(TOOLS[::-1], QUERIES, asks=BANK.asks))
    assert pool_requests(directions, QUERIES, 4) == pool_requests(turned, QUERIES, 4)


@pytest.mark.parametrize(
    ("tool", "does", "names", "kind"),
    [
        ("lab.heat.melt", "", ["lab.heat.melt"], "name"),
        ("`Fill_Gaps()`", "", ["lab.heat.fill_gaps"], "name"),
        ("other.fill_gap", "", ["lab.heat.fill_gaps"], "name"),
        ("scipy.find_peaks", "", [], "none"),
        ("", "replace missing readings", ["lab.heat.fill_gaps"], "description"),
        (
            "scipy.impute",
            "replace missing readings",
            ["lab.heat.fill_gaps"],
            "description",
        ),
        ("=1+1", "", [], "none"),
    ],
)
def test_free_answers_are_matched_by_name_and_by_description(
    directions, tool, does, names, kind
):
    found, how = FurtherTools(directions.bank, lambda: directions).match(
        FreeAnswer(tool, does)
    )
    assert (found[:1], how) == (names, kind)


def test_an_exact_name_with_a_space_is_matched_by_name():
    bank = Bank((Tool(name="Windows CLI/ssh_execute", summary="Run a command."),), ())
    answer = FreeAnswer("Windows CLI/ssh_execute", "update the server")
    assert FurtherTools(bank, None).match(answer) == ([bank.tools[0].name], "name")


def test_retrievers_are_fitted_once_a_reply_calls_for_further_tools(directions):
    def fit():
        raise AssertionError

    shown = [TOOLS[0].name, TOOLS[5].name]
    assert FurtherTools(directions.bank, fit).find(shown, shown, shown, 5).tools == {}
    first = FurtherTools(directions.bank, lambda: directions)
    found = first.find(shown, (), shown, 3)
    again = FurtherTools(directions.bank, fit, known=first.found)
    assert found.tools and again.find(shown, (), shown, 3) == found


def test_further_tools_are_free_answers_and_neighbours_of_what_is_newly_needed(
    directions,
):
    find = FurtherTools(directions.bank, lambda: directions).find
    shown = [TOOLS[0].name, TOOLS[5].name]
    answers = [FreeAnswer("melt"), FreeAnswer("x.y")]
    further = find(shown, shown[:1], shown, 2, answers)
    found, matched = further.tools, further.matched
    assert found["lab.heat.melt"] == ("free-name",)
    assert "description" in found["lab.heat.drop_gaps"]
    assert matched == {"name": 1, "none": 1}
    assert not found.keys() & set(shown)
    assert len(find(shown, (), shown, 3).tools) == 3
