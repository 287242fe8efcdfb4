"""A second call grades what the first one names freely, and the neighbours of what it needs."""

import polars as pl
import pytest

from tests.requests.verify.test_verify import BANK, rows, shown, verify
from tests.servers.chat import Answer, ChatServer
from toolbank.bank.bank import Bank
from toolbank.requests.verify.gradings import read_gradings

FEW = {"candidates": 3, "second_call": 4}


def verify_twice(server, folder, **settings):
    return verify(server, folder, **{**FEW, **settings})


def is_again(call):
    return "- others:" not in call.prompt


def needs(*tools, **more):
    needed = [{"tool": tool, "why": "so"} for tool in tools]
    return Answer.json({"needed": needed, "alternatives": [], "aside": "", **more})


def missing(call):
    """A tool of the bank that a prompt doesn't show."""
    return next(name for name in BANK.tool_names if name not in shown(call)[1])


def label_of(call):
    query = next(one for one in BANK.queries if one.query == shown(call)[0])
    return query.tools[0]


def by_free_answer(call):
    """Needs a label and, once it is shown, what it missed: the first tool that was not shown."""
    _, tools = shown(call)
    if not is_again(call):
        return needs(label_of(call), others=[{"tool": missing(call), "does": ""}])
    others = [name for name in sorted(tools) if name != label_of(call)]
    return needs(label_of(call), others[0])


def second(folder):
    frame = pl.read_parquet(folder / "verify" / "candidates.parquet")
    return frame.filter(call_number=2)


def test_a_tool_that_is_named_freely_gets_a_grade(tmp_path, monkeypatch):
    with ChatServer(by_free_answer) as server:
        found = verify(server, tmp_path, **FEW)
        assert len(server.calls) == 2 * len(BANK.queries)
        for call in server.calls:
            assert is_again(call) or len(shown(call)[1]) == FEW["candidates"]
        # No retriever is fitted again.
        monkeypatch.setattr("toolbank.requests.verify.verify.Directions", None)
        same = verify(server, tmp_path, **FEW)
        assert same.value.content["second_call"] == found.value.content["second_call"]
        assert len(server.calls) == 2 * len(BANK.queries)
    assert same.value.labels == found.value.labels
    further = second(tmp_path)
    named = {(row["query"], row["tool"]) for row in further.iter_rows(named=True)}
    got = set(rows(found, "query", "tool"))
    assert len(named & got) == len(BANK.queries)
    assert further["found_by"].explode().unique().to_list() == ["free-name"]
    summary = found.value.content["second_call"]
    assert (summary["requests"], summary["share"], summary["changed"]) == (12, 1.0, 12)
    assert summary["free_answers"] == {"name": 12, "description": 0, "none": 0}
    by = found.value.content["directions"]
    assert by["free-name"] == {"candidates": 12, "needed": 12}
    assert by["label"]["needed"] == 12
    # What a grade was chosen from is in the file under the key that the grade has.
    [grading, *_] = read_gradings(tmp_path / "verify" / "grades.parquet")
    assert grading.candidates in set(further["key"])


def test_candidates_of_an_earlier_version_are_shown_again(tmp_path):
    with ChatServer(by_free_answer) as server:
        verify(server, tmp_path, **FEW)
        path = tmp_path / "verify" / "candidates.parquet"
        before = pl.read_parquet(path)
        before.filter(call_number=1).drop("call_number").write_parquet(path)
        path.with_suffix(".sha256").unlink()
        asked = len(server.calls)
        verify(server, tmp_path, **FEW)
        # The replies to the same prompts are in the journal.
        assert len(server.calls) == asked
    assert pl.read_parquet(path).equals(before)


@pytest.mark.parametrize(
    ("others", "matched"),
    [
        ([], (0, 0, 0)),
        ("all of them", (0, 0, 0)),
        ([{"tool": 7}, None, {}], (0, 0, 0)),
        ([{"tool": "numpy.fft", "does": ""}] * 3, (0, 0, 1)),
        ([{"tool": "numpy.fft", "does": ""}, "zz.yy", {"tool": "a" * 9999}], (0, 0, 3)),
    ],
)
def test_nothing_new_takes_no_second_call(tmp_path, others, matched):
    script = lambda call: needs(label_of(call), others=others)  # noqa: E731
    bank = Bank(BANK.tools, BANK.queries[:1])
    with ChatServer(script) as server:
        found = verify(server, tmp_path, bank, **FEW)
        assert len(server.calls) == 1
    free = found.value.content["second_call"]["free_answers"]
    assert tuple(free.values()) == matched
    assert rows(found, "tool") == [(BANK.queries[0].tools[0],)]


def test_neighbours_of_a_tool_that_is_newly_needed_are_graded(tmp_path):
    def script(call):
        if is_again(call):
            return needs(label_of(call))
        return needs(next(n for n in shown(call)[1] if n not in BANK.queries[0].tools))

    bank = Bank(BANK.tools, BANK.queries[:1])
    with ChatServer(script) as server:
        found = verify(server, tmp_path, bank, **FEW)
    [_, call] = server.calls
    assert len(shown(call)[1]) == 1 + FEW["second_call"]
    assert second(tmp_path)["tool"].len() == FEW["second_call"]
    # The label was not shown again, so that the first grades count.
    assert found.value.content["second_call"]["not_usable"] == 1


@pytest.mark.parametrize(
    ("second_reply", "reason"),
    [
        (Answer.text("I would rather not."), "not-json"),
        (needs("shop.burn"), "not-offered"),
        (needs(), "nothing-needed"),
        (Answer.error(400), "bad-request"),
    ],
)
def test_a_second_reply_that_cannot_be_used_leaves_the_first_grades(
    tmp_path, second_reply, reason
):
    script = lambda call: second_reply if is_again(call) else by_free_answer(call)  # noqa: E731
    bank = Bank(BANK.tools, BANK.queries[:1])
    with ChatServer(script) as server:
        found = verify(server, tmp_path, bank, **FEW)
        assert len(server.calls) == 2
    assert rows(found, "tool") == [(BANK.queries[0].tools[0],)]
    [problem] = [one for one in found.problems if "second call not usable" in one]
    assert reason in problem
    assert found.value.content["not_graded"] == []


def test_a_request_without_a_fitting_candidate_gets_what_is_named_freely(tmp_path):
    def script(call):
        if is_again(call):
            return needs(shown(call)[1][0])
        other = [{"tool": missing(call), "does": ""}]
        return Answer.json(
            {"needed": [], "aside": "None of them does it.", "others": other}
        )

    bank = Bank(BANK.tools, BANK.queries[:1])
    with ChatServer(script) as server:
        found = verify(server, tmp_path, bank, **FEW)
    assert rows(found, "grade", "tool") == [("needed", second(tmp_path)["tool"][0])]
