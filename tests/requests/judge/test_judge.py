import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.servers.chat import Answer, ChatServer
from tests.world import write_lines
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.config.assets import shipped
from toolbank.llm.journal import Journal
from toolbank.llm.templates import PromptTemplate
from toolbank.publish.exports import export_bank
from toolbank.requests.judge.judge import judge_bank
from toolbank.requests.judge.judges import (
    READ_BY_EYE,
    Features,
    JudgeConfig,
    compare,
    make_request,
    read_features,
)
from toolbank.requests.judge.summary import Judgement, summarise
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.folders import OWNER

TEMPLATE = "Which is better by {{ criterion }}?\nA: {{ first }}\nB: {{ second }}"
CRITERIA = JudgeConfig().criteria


def make_bank():
    drafted = "Sort the table, then sum it, then save it, and print it."
    queries = tuple(
        Query(
            id=f"q{i}",
            query=f"good {i}: what came of it all?",
            draft=f"bad {i}: {drafted}",
            tools=("lib.t0", "lib.t1"),
        )
        for i in range(8)
    )
    return Bank(tuple(Tool(name=f"lib.t{i}") for i in range(3)), queries)


@pytest.fixture
def bank():
    return make_bank()


@pytest.fixture
def judge(bank, tmp_path, monkeypatch):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/judge.j2").write_text(TEMPLATE)
    monkeypatch.chdir(tmp_path)

    def run(bank=bank, seed=0, **settings):
        config = JudgeConfig(**settings)
        with Journal(tmp_path / "journal.sqlite") as journal:
            run.judged = judge_bank(bank, config, seed=seed, journal=journal)
            return run.judged.value

    return run


def model(server):
    return {"engine": "openai", "base_url": server.url, "model": "m"}


def sides(call):
    return re.search(r"A: (.*)\nB: (.*)", call.prompt).groups()


def prefer(start):
    def script(call):
        winner = "A" if sides(call)[0].startswith(start) else "B"
        return Answer.json({"reason": "", "winner": winner})

    return script


def counts(judged, criterion="fluency"):
    summary = judged["criteria"][criterion]
    return tuple(summary[verdict]["count"] for verdict in ("win", "tie", "lose"))


def test_the_heuristic_is_labelled_and_says_how_often_a_reader_disagrees(judge):
    judged = judge()
    assert judged["heuristic"] is True
    assert "heuristic" in judged["judge"]
    assert judged["read_by_eye"]["pairs"] == 30
    assert counts(judged, "naturalness") == (8, 0, 0)


def test_a_model_that_knows_the_better_text_wins_in_both_orders(judge):
    with ChatServer(prefer("good")) as server:
        judged = judge(**model(server))
    assert [counts(judged, name) for name in CRITERIA] == [(8, 0, 0)] * 3
    assert judged["criteria"]["fluency"]["consistency"] == 1
    assert (judged["judge"], judged["heuristic"]) == ("m", False)
    assert len(server.calls) == 8 * 2 * 3
    firsts = [sides(call)[0][:4] for call in server.calls]
    assert firsts.count("good") == firsts.count("bad ") == 24


def test_a_criterion_of_the_user_is_explained_to_the_model(judge, tmp_path):
    shutil.copy(shipped("prompts") / "judge.j2", tmp_path / "prompts")
    own = {"criteria": ["brevity"], "meanings": {"brevity": "The one that says less."}}
    script = Answer.json({"reason": "", "winner": "A"})
    with ChatServer(lambda call: script) as server:
        judged = judge(**model(server), pairs=2, **own)
    assert counts(judged, "brevity") == (0, 2, 0)
    assert all("The one that says less." in call.prompt for call in server.calls)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"criteria": ["brevity"], "engine": "openai"}, "meanings"),
        ({"criteria": ["brevity"], "meanings": {"brevity": "Less."}}, "judge.engine"),
    ],
)
def test_a_criterion_that_nothing_explains_is_refused(settings, named):
    with pytest.raises(ValidationError, match=named):
        JudgeConfig(**settings)


def test_where_no_call_is_answered_it_fails_and_nothing_is_judged(judge):
    with (
        ChatServer(lambda call: Answer.error(500)) as server,
        pytest.raises(ToolbankError, match=r"[Rr]un the same command"),
    ):
        judge(**model(server), retries=0, pairs=1, criteria=["fluency"])
    with ChatServer(prefer("good")) as server:
        judged = judge(**model(server), pairs=1, criteria=["fluency"])
    assert counts(judged) == (1, 0, 0)


def test_replies_without_a_verdict_are_counted_by_reason_and_the_rest_judged(judge):
    bad = {
        "good 1": Answer.text("I like both!"),
        "good 2": Answer.text("I like both!"),
        "good 3": Answer.text('{"reason": "hm', finish_reason="length"),
        "good 4": Answer.text(""),
        "good 5": Answer.json({"winner": "C"}),
        "good 6": Answer.error(500),
    }

    def script(call):
        return bad.get(sides(call)[0][:6]) or prefer("good")(call)

    with ChatServer(script) as server:
        judged = judge(concurrency=1, retries=0, **model(server))
        problems, calls = "\n".join(judge.judged.problems), len(server.calls)
        # No reply that was paid for is requested again, whatever the concurrency.
        assert judge(concurrency=8, retries=0, **model(server)) == judged
        assert len(server.calls) == calls + 3
    # The most common reason comes first.
    assert "not-json 6, cut-off 3, empty 3" in problems
    assert re.search(r"^  toolbank show /\S+ ID$", problems, re.M)
    once = dict.fromkeys(("cut-off", "empty", "wrong-schema", "http-500"), 1)
    assert judged["criteria"]["fluency"]["failed"] == {"not-json": 2, **once}
    assert judged["calls_failed"] == 3
    assert counts(judged) == (2, 0, 0)


def test_no_journaled_verdict_is_asked_for_again_and_more_pairs_go_on_from_there(judge):
    with ChatServer(prefer("good")) as server:
        few = judge(pairs=3, **model(server))
        assert len(server.calls) == 18
        assert judge(pairs=3, **model(server)) == few
        assert len(server.calls) == 18
        more = judge(pairs=5, **model(server))
        assert len(server.calls) == 30
    assert more["pairs"][:3] == few["pairs"]


def test_a_budget_ends_the_judge_with_the_pairs_that_were_judged(judge):
    with ChatServer(prefer("good")) as server:
        judged = judge(concurrency=1, budget={"calls": 20}, **model(server))
        assert len(server.calls) == 20
        found = judged["criteria"].values()
        unjudged = sum(one["failed"].get("budget", 0) for one in found)
        assert unjudged == judged["calls_failed"] == 28
        assert "20 replies asked for" in judge.judged.message
        stopped, missing, *_ = judge.judged.problems
        assert "judge.budget.calls=40" in stopped
        assert "verdicts missing: 28" in missing
        assert counts(judge(**model(server))) == (8, 0, 0)


def test_equal_texts_are_counted_apart_and_judged_by_nobody(judge, bank):
    same = [one.model_copy(update={"draft": one.query}) for one in bank.queries]
    with ChatServer(lambda _: Answer.json({"winner": "A"})) as server:
        judged = judge(Bank(bank.tools, tuple(same)), **model(server))
        assert server.calls == []
        assert (judged["n"], judged["identical"]) == (0, 8)
        assert judged["criteria"]["fluency"]["consistency"] is None
        some = (*same[:3], *bank.queries[3:])
        judged = judge(Bank(bank.tools, some), **model(server))
    assert len(server.calls) == 5 * 2 * 3
    assert (judged["n"], judged["identical"]) == (5, 3)
    assert counts(judged) == (0, 5, 0)
    assert judged["criteria"]["fluency"]["consistency"] == 0
    assert judged["pairs"][-1]["verdicts"]["fluency"] == {
        "query_first": "win",
        "query_second": "lose",
        "verdict": "tie",
    }
    heuristic = judge(Bank(bank.tools, some))
    assert (heuristic["n"], heuristic["identical"]) == (5, 3)
    assert counts(heuristic, "naturalness") == (5, 0, 0)
    assert judge.judged.message.startswith(
        "5 pairs by rules (heuristic); 3 of identical texts are not judged"
    )
    # Pairs that do not differ take no place of others.
    assert judge(Bank(bank.tools, some), pairs=4)["n"] == 4


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("nowhere.jsonl", None, "nowhere.jsonl"),
        ("prompts", None, "prompts: not a dataset"),
        ("empty.jsonl", "\n", r"empty\.jsonl: no requests"),
        ("half.jsonl", r'{"query": "\ud800"}', "line 2"),
        *(
            ("broken.jsonl", line, r"1 line is broken\.\n +line 2")
            for line in ("{", "[1]", '{"text": "x"}', '{"query": ""}', '{"query": 3}')
        ),
    ],
)
def test_a_dataset_that_cannot_be_read_is_named(judge, tmp_path, name, content, told):
    path = tmp_path / name
    if content is not None:
        first = '{"query": "fine"}\n' if content.strip() else ""
        path.write_text(f"{first}{content}\n")
    with pytest.raises(InputError, match=told):
        judge(against=path)


def test_another_dataset_is_paired_at_random_by_the_seed(judge, tmp_path):
    rows = [{"id": f"o{i}", "query": f"bad other {i}"} for i in range(6)]
    path = write_lines(tmp_path / "other.jsonl", rows)

    def pairs(judged):
        return [(pair["query_id"], pair["other_id"]) for pair in judged["pairs"]]

    judged = judge(against=path)
    assert (judged["n"], judged["against"]) == (6, "other.jsonl")
    assert len({other for _, other in pairs(judged)}) == 6
    assert pairs(judged) != pairs(judge(against=path, seed=1))
    assert judge(against=path) == judged


def test_a_run_and_the_folder_of_a_dataset_can_be_held_against(judge, bank, tmp_path):
    export_bank(bank, "jsonl", tmp_path / "jsonl")
    run = tmp_path / "run"
    bank.save(run / "bank")
    (run / "recipe.yaml").write_text("name: other\n")
    (run / OWNER).write_text("process 1\n")
    expected = {query.query for query in bank.queries}
    for place in (tmp_path / "jsonl", run):
        judged = judge(against=place)
        assert {pair["other"] for pair in judged["pairs"]} == expected
        assert judged["against"] == place.name


@pytest.mark.parametrize(
    ("words", "part"), [(20, "shorter"), (7, "as long"), (2, "longer")]
)
def test_wins_are_counted_by_relative_length(judge, tmp_path, words, part):
    rows = [{"query": f"{i} " * words} for i in range(8)]
    judged = judge(against=write_lines(tmp_path / "other.jsonl", rows))
    (told,) = (one for one in judged["lengths"] if one["n"])
    assert (told["part"], told["n"]) == (part, 8)
    assert told["ratio"] == pytest.approx(7 / words)
    assert told["criteria"]["fluency"]["n"] == 8


def test_a_bank_without_drafts_has_nothing_to_judge(judge, bank):
    bare = tuple(query.model_copy(update={"draft": ""}) for query in bank.queries)
    judged = judge(Bank(bank.tools, bare))
    assert judged["n"] == 0
    assert judged["criteria"]["fluency"]["win"]["share"] is None


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_shipped_prompt_explains_every_criterion(tmp_path, monkeypatch, criterion):
    monkeypatch.chdir(tmp_path)
    first = 'A <b> & {{ 7 * 7 }} {% raw %} says "tie".'
    request = make_request(PromptTemplate("judge.j2"), 0, criterion, first, "What?")
    prompt = request.messages[0].content
    assert f"Criterion: {criterion}." in prompt
    assert "more" in prompt.partition(f"Criterion: {criterion}.")[2][:60]
    assert f"<request-a>\n{first}\n</request-a>" in prompt
    assert "<request-b>\nWhat?\n</request-b>" in prompt
    assert not prompt.startswith("{#")


def test_the_sign_test_leaves_ties_out():
    def judged(*rows):
        return summarise(Judgement("fluency", *row) for row in rows)

    win, tie, lose = (("win", "win"), ("tie", "tie"), ("lose", "lose"))
    # 8 wins and no loss: 2 / 2**8.
    assert judged(*[win, tie] * 8).p == pytest.approx(2 / 256)
    assert judged(tie).p is None
    assert judged(win, tie, lose).p == 1
    assert judged(win, ("win", "lose"), lose, tie).consistency == 0.75


STEPWISE = (
    "Load the sales table, sort it by date, and then compute the running total. "
    "Plot it. Then save it to a file."
)
MERGED = "Show me how our sales added up over the year, in date order, on one chart."


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_chain_of_commands_loses_to_a_merged_request(criterion):
    assert compare(criterion, read_features(MERGED), read_features(STEPWISE)) == "A"


@given(first=st.text(), second=st.text(), criterion=st.sampled_from(CRITERIA))
def test_swapping_the_texts_swaps_the_verdict(first, second, criterion):
    swapped = {"A": "B", "B": "A", "tie": "tie"}
    a, b = read_features(first), read_features(second)
    assert compare(criterion, a, b) == swapped[compare(criterion, b, a)]


def test_features_are_counted():
    features = read_features(
        "Sort the rates. Sort the dates, then drop the last. Is it cold if it snows?",
        ["numpy.sort", "numpy.lexsort"],
    )
    assert features == Features(
        chained_commands=2,
        sequence_words=1,
        sentences=3,
        command_sentences=1,
        conditionals=1,
        tool_words=0.5,
        repeated_openings=1,
    )
    rank = ["numpy.linalg.matrix_rank"]
    assert read_features("the rank of this matrix", rank).tool_words == 1
    assert read_features("the rank of this table", rank).tool_words == 0


def test_the_stated_disagreement_with_a_reader_is_the_counted_one():
    """The 30 verdicts were written down before the heuristic's were seen."""
    root = Path(__file__).resolve().parents[3]
    rows = read_lines(root / "recipes/data/numpy-written.jsonl")
    written = {row["id"]: row for row in rows}
    verdicts = read_lines(Path(__file__).with_name("read_by_eye.jsonl"))
    name = {"A": "win", "B": "lose", "tie": "tie"}
    disagree = dict.fromkeys(CRITERIA, 0)
    for verdict in verdicts:
        row = written[verdict["id"]]
        query, draft = (read_features(row[k], row["tools"]) for k in ("query", "draft"))
        for criterion in CRITERIA:
            found = name[compare(criterion, query, draft)]
            disagree[criterion] += found != verdict[criterion]
    assert {"pairs": len(verdicts), "disagree": disagree} == READ_BY_EYE


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]
