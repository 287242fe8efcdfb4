"""What a user finds out about each attempt of a run, finished or not."""

import json
import re
import shutil

import pytest

from tests.servers.chat import Answer, ChatServer
from tests.world import PACKAGE, drafted, polished, write_recipe
from toolbank.bank.files import read_attempts, read_query, write_attempts, write_tools
from toolbank.bank.records import Tool
from toolbank.commands.show import name_nearest, show_attempt, show_one, show_outcomes
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.terminal import advise_to_finish

SALES = "How much do our monthly sales vary around the typical month of the last year?"
LETTERS = "Which word length turns up most often in the letters my grandmother wrote?"
DECLINED = Answer.json({"declined": True, "reason": "nothing in common"})
TOO_FEW = Answer.json(drafted([], SALES))
FIRST = "draft of the sales, which is long enough to be one"
AGAIN = "the same sales again, in a draft of other words"
LAST = "draft of the letters, which is long enough to be one"
# What each attempt's writer is answered, try by try.
WRITTEN = [
    [lambda call: Answer.json(drafted(call.offered[:2], FIRST))],
    [lambda _: DECLINED],
    [
        lambda _: Answer.error(503, "the first"),
        lambda _: Answer.error(500, "the second"),
    ],
    [lambda call: Answer.json(drafted(call.offered[:2], AGAIN))],
    [lambda _: TOO_FEW],
    [
        lambda _: Answer.error(503, "overloaded for a moment"),
        lambda call: Answer.json(drafted(call.offered[:2], LAST)),
    ],
]
POLISHED = {FIRST: SALES, AGAIN: SALES.lower(), LAST: LETTERS}


def play():
    """A script for a server; attempts are known by the order in which they first ask."""
    tries = {}

    def answer(call):
        if call.asks_polish:
            text = next(t for d, t in POLISHED.items() if d in call.prompt)
            return Answer.json(polished(text))
        left = tries.setdefault(call.prompt, list(WRITTEN[len(tries) % len(WRITTEN)]))
        return left.pop(0)(call)

    return answer


def generate(folder, script, *settings, until="generate"):
    small = {"queries": 2, "offered": 4, "concurrency": 1, "retries": 1}
    with ChatServer(script) as server:
        model = {"base_url": server.url, "model": "m"}
        path = write_recipe(folder.parent, PACKAGE, **model, **small)
        judge = f"judge={{pairs: 1, base_url: '{server.url}'}}"
        recipe = load_recipe(path, ["domain=maths", judge, *settings])
        run_recipe(recipe, folder, until=until)
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return generate(tmp_path_factory.mktemp("show") / "run", play())


@pytest.fixture
def unfinished(run, tmp_path):
    """What a kill before the end would have left: the recipe and the journal."""
    for name in ("recipe.yaml", "journal.sqlite"):
        shutil.copy(run / name, tmp_path)
    return tmp_path


def test_a_query_is_shown_with_what_the_judge_was_asked_and_answered(tmp_path):
    def script(call):
        if "Criterion:" in call.prompt:
            return Answer.json({"reason": "it reads aloud well", "winner": "tie"})
        return play_one(call)

    play_one, folder = play(), tmp_path / "run"
    judge = ("judge.engine=openai", "judge.model=m", "judge.pairs=9")
    generate(folder, script, *judge, until="judge")
    shown = show_attempt(folder, "0")
    assert shown.count("--- judge: user") == shown.count("it reads aloud well") == 6
    assert shown.count(f"\n{SALES}\n") or SALES in shown.partition("--- judge")[2]
    assert LETTERS not in shown


def test_outcomes_are_listed_with_reasons_and_ids(run):
    lines = [" ".join(line.split()) for line in show_outcomes(run).splitlines()]
    assert lines[1:6] == [
        "accepted 2 maths-000000, maths-000005",
        "declined 1 1",
        "failed http-500 1 2",
        "rejected near-duplicate 1 3",
        "rejected too-few-tools 1 4",
    ]


def test_an_accepted_query_is_traced_to_its_prompts_and_replies(run):
    told = show_attempt(run, "maths-000000")
    sides = ("user", "reply of served-model")
    places = [told.index(f"{s}: {side}") for s in ("write", "polish") for side in sides]
    assert places == sorted(places)
    assert f">>> accepted as maths-000000: {SALES}" in told
    offered = json.loads(told.split("write: reply of served-model\n")[1].split("\n")[0])
    assert len(offered["tools"]) == 2
    assert "\n>>> tools: statistics." in told


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("1", "declined: nothing belongs together (nothing in common)"),
        ("2", "failed: http-500 ("),
        ("3", "rejected: near-duplicate (like maths-000000)"),
        ("maths-000004", "rejected: too-few-tools ("),
    ],
)
def test_an_attempt_that_gave_no_query_is_traced_too(run, name, ending):
    told = show_attempt(run, name)
    assert f">>> {ending}" in told
    assert f" attempt {int(name[-1])} " in told


def test_failed_tries_are_told_with_their_reasons(run):
    told = show_attempt(run, "2")
    assert "write: a try failed, http-503\n" in told
    assert "the first" in told and "the second" in told
    assert "write: a try failed, http-500; the call was given up\n" in told
    told = show_attempt(run, "maths-000005")
    assert "write: a try failed, http-503\n" in told
    assert "overloaded for a moment" in told
    assert told.index("a try failed") < told.index("write: reply of")


def test_an_unfinished_run_is_told_from_its_journal(unfinished):
    table = show_outcomes(unfinished)
    assert f"{advise_to_finish(unfinished)}\n" in table
    assert re.search("undecided +5 +0, 1, 3, 4", table)
    assert "http-503" in table
    told = show_attempt(unfinished, "maths-000003")
    assert SALES.lower() in told
    assert ">>> undecided" in told
    assert "a try failed, http-500" in show_attempt(unfinished, "2")


def test_what_another_model_answered_or_failed_at_is_left_out(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "copy")
    generate(folder, play(), "generate.model=other")
    assert show_attempt(folder, "0").count("--- write: reply of") == 1
    refuses = Answer.error(400, "that model broke")
    with pytest.raises(ToolbankError):
        generate(tmp_path / "run", lambda _: refuses, "generate.model=other")
    assert "that model broke" in show_attempt(tmp_path / "run", "0")
    generate(tmp_path / "run", play())
    for number in range(6):
        assert "that model broke" not in show_attempt(tmp_path / "run", str(number))
    assert show_attempt(tmp_path / "run", "2").count("a try failed") == 2


def test_an_attempt_after_the_end_of_the_bank_is_said_not_to_count(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    rows = list(read_attempts(run / "bank" / "attempts.parquet"))
    write_attempts(folder / "bank" / "attempts.parquet", rows[:3])
    told = show_attempt(folder, "maths-000005")
    assert ">>> not counted in the bank" in told
    assert LETTERS in told


@pytest.mark.parametrize("name", ["99", "geometry-000001", "-1", "what", "9" * 30])
def test_an_id_that_is_not_there_is_refused_with_some_that_are(run, name):
    with pytest.raises(InputError, match=r"Ids look like maths-000000") as told:
        show_attempt(run, name)
    assert "toolbank show" in str(told.value)


def test_a_folder_without_a_run_or_without_calls_is_named(run, tmp_path):
    with pytest.raises(InputError, match="not the folder of a run"):
        show_outcomes(tmp_path)
    shutil.copy(run / "recipe.yaml", tmp_path)
    with pytest.raises(InputError, match=f"toolbank run {tmp_path}"):
        show_outcomes(tmp_path)
    with pytest.raises(InputError, match="no such attempt"):
        show_attempt(tmp_path, "0")
    assert not (tmp_path / "journal.sqlite").exists()
    (tmp_path / "journal.sqlite").write_bytes(b"rubbish" * 1000)
    with pytest.raises(ToolbankError, match="damaged"):
        show_outcomes(tmp_path)


def test_a_tool_is_shown_with_what_it_takes_and_the_requests_that_use_it(run):
    assert show_one(run, "0") == show_attempt(run, "0")
    query = read_query(run / "bank" / "queries.parquet", "maths-000000")
    told = show_one(run, query.tools[0]).splitlines()
    assert re.match(rf"{query.tools[0]}, a \w+ of python:statistics", told[0])
    stdev = show_one(run, "statistics.stdev")
    assert "  data (any)" in stdev
    assert "  xbar (any, optional)" in stdev
    assert f"  maths-000000 ({query.split})  {SALES}" in told


@pytest.mark.parametrize("name", ["statistics.medain", "Medain", "median_of"])
def test_of_a_tool_that_is_not_there_the_nearest_are_named_first(run, name):
    with pytest.raises(InputError) as told:
        show_one(run, name)
    said = str(told.value)
    assert "The nearest tools are statistics.median" in said
    assert said.index("The nearest tools") < said.index("Ids look like maths-000000")


def test_any_end_of_a_name_is_near_to_it(tmp_path):
    made = ("acme.Client.shipments.create", "acme.Client.shipments.labels.create")
    tools = [Tool(name=name, kind="method", summary="Creates one.") for name in made]
    write_tools(tmp_path / "bank" / "tools.parquet", tools)
    near = name_nearest(RunFolder(tmp_path), "labels.creat")
    assert near.startswith(f"The nearest tools are {made[1]}, {made[0]}.")


def test_of_what_a_source_has_it_is_said_why_it_is_no_tool(tmp_path):
    path = write_recipe(tmp_path, "{type: python, package: json}", engine="rules")
    folder = tmp_path / "run"
    run_recipe(load_recipe(path), folder, until="sources")
    for name, why in (
        ("json.tool.main", r"in python:json==.* has no docstring"),
        ("json.JSONDecodeError", r"in python:json==.* kind exc"),
        ("json.nowhere", "a tool of this run"),
    ):
        with pytest.raises(InputError, match=why):
            show_one(folder, name)
