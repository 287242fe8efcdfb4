"""Sheets for people: there and back in three forms, wrong ones, and what they change in a run."""

import csv
import json
import re
import shutil

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.commands.in_process import do
from tests.requests.verify.test_verify import shown
from tests.servers.chat import Answer, ChatServer
from tests.world import good, write_recipe
from toolbank.bank.bank import Bank, read_labels
from toolbank.bank.records import Query, Tool
from toolbank.config.assets import shipped
from toolbank.requests.verify.candidates import Candidate, write_hashed
from toolbank.requests.verify.review import make_sheet, read_reviews
from toolbank.requests.verify.review_forms import write_sheet
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json

ODD = st.text(
    st.sampled_from(
        ["=", "+", "-", "@", "'", '"', ",", ";", "\n", "\t", "a", "ü", " "]
    ),
    max_size=8,
)
FORMS = ("csv", "argilla", "label-studio")
NAMES = [f"kit.t{n}" for n in range(5)]


@st.composite
def banks(draw):
    """A bank of up to 50 requests, and its tools' odd summaries."""
    tools = tuple(Tool(name=name, summary=draw(ODD)) for name in NAMES)
    texts = draw(st.lists(ODD.filter(str.strip), min_size=1, max_size=50))
    queries = [
        Query(id=f"q{n}", query=f"{text}{n}", tools=("kit.t0",), split="train")
        for n, text in enumerate(texts)
    ]
    return Bank(tools, tuple(queries))


def pool(folder, bank):
    path = folder / "candidates.parquet"
    rows = [
        Candidate(
            query=q.id, key=f"k{q.id}", tool=name, found_by=("label",), call_number=1
        )
        for q in bank.queries
        for name in NAMES
    ]
    write_hashed(path, Candidate, rows)
    return path


def fill(path, form, judge, person="ann"):
    """Fill in a sheet as its tool would: `judge` gives judgement, alternative_for and note."""
    keys = ("judgement", "alternative_for", "note")
    if form == "csv":
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            said = zip(keys, judge(row["request_id"], row["tool"]), strict=True)
            row |= {
                key: f"'{s}" if re.match(r"'*[=+\-@\t\r]", s) else s for key, s in said
            }
            row["annotator"] = person
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(rows)
        return path
    file = path / "records.json" if form == "argilla" else path
    items = read_json(file)
    for item in items:
        subject = item.get("fields") or item["data"]
        said = dict(
            zip(keys, judge(subject["request_id"], subject["tool"]), strict=True)
        )
        if form == "argilla":
            item["responses"] = {
                key: [{"value": value, "user_id": person}]
                for key, value in said.items()
                if value
            }
        else:
            result = [
                {
                    "from_name": key,
                    "type": "choices",
                    "value": {"choices" if key == "judgement" else "text": [value]},
                }
                for key, value in said.items()
                if value
            ]
            item["annotations"] = [
                {"completed_by": {"email": person}, "result": result}
            ]
    write_json(file, items)
    return path


@pytest.mark.parametrize("form", FORMS)
@given(bank=banks(), blind=st.booleans(), data=st.data())
def test_what_a_person_says_comes_back_as_it_was_said(
    tmp_path_factory, form, bank, blind, data
):
    folder = tmp_path_factory.mktemp("sheet")
    rows = make_sheet(bank, pool(folder, bank), 50, 0, blind=blind)
    assert sorted((r.request_id, r.tool) for r in rows) == sorted(
        (q.id, name) for q in bank.queries for name in NAMES
    )
    path = folder / {"csv": "s.csv", "argilla": "s", "label-studio": "s.json"}[form]
    write_sheet(path, rows, form, "kit")
    expected = {}
    for query in bank.queries:
        note = data.draw(ODD).strip()
        if data.draw(st.booleans()):
            expected[query.id] = {
                "kit.t1": ("needed", "", note),
                "kit.t2": ("alternative", "kit.t1", note),
            }
        elif data.draw(st.booleans()):
            expected[query.id] = {"kit.t0": ("aside", "", note)}

    def judge(query, tool):
        said = expected.get(query)
        return ("", "", "") if said is None else said.get(tool, ("no", "", ""))

    filled = fill(path, form, judge)
    gradings, unfinished = read_reviews([filled], bank, folder / "candidates.parquet")
    assert not unfinished
    got = {
        one.query: {
            label.tool or "kit.t0": (label.grade, label.stands_for, label.reason)
            for label in one.labels
        }
        for one in gradings
    }
    wanted = {
        query: {
            tool: (grade, stands_for, note or ("set aside" if grade == "aside" else ""))
            for tool, (grade, stands_for, note) in said.items()
        }
        for query, said in expected.items()
    }
    assert got == wanted
    assert {(one.kind, one.source) for one in gradings} <= {("person", "ann")}
    texts = {query.id: query.query for query in bank.queries}
    assert all(one.text == texts[one.query] for one in gradings)


BANK = Bank(
    tuple(Tool(name=name, summary=f"=cmd|{name}") for name in NAMES),
    tuple(
        Query(id=f"q{n}", query=f"@do {n}", tools=("kit.t0",), split="test")
        for n in range(3)
    ),
)


def sheet(folder, form="csv"):
    path = (
        folder / {"csv": "ann.csv", "argilla": "ann", "label-studio": "ann.json"}[form]
    )
    rows = make_sheet(BANK, pool(folder, BANK), 50, 0, blind=True)
    write_sheet(path, rows, form, "kit")
    return path


def test_no_cell_of_a_table_is_a_formula_for_a_spreadsheet(tmp_path):
    cells = pl.read_csv(sheet(tmp_path), infer_schema=False).fill_null("")
    assert not cells.select(pl.all().str.contains(r"^[=+\-@]").any()).row(0).count(True)
    assert cells["request"][0] == "'@do 0"
    assert "grade_now" not in cells.columns


def edit(path, *cells):
    """Write cells (row, column, text) into a table."""
    frame = pl.read_csv(path, infer_schema=False).fill_null("")
    for row, column, text in cells:
        values = frame[column].to_list()
        values[row] = text
        frame = frame.with_columns(pl.Series(column, values))
    frame.write_csv(path)
    return path


N, F = "judgement", "alternative_for"


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([(0, "request_id", "q77"), (0, N, "no")], "line 2.*'q77'"),
        ([(1, "request", "do 9"), (1, N, "no")], "line 3.*another text"),
        ([(0, "tool", "kit.burn"), (0, N, "needed")], "line 2.*'kit.burn'"),
        ([(2, N, "yes")], "line 4.*'yes'.*needed, alternative, no, aside"),
        ([(2, N, "alternative")], f"line 4.*{F}"),
        (
            [(2, N, "alternative"), (2, F, "kit.t3"), (0, N, "needed")],
            "line 4.*'kit.t3'",
        ),
        ([(2, F, "kit.t3")], f"line 4.*{F}.*`alternative`"),
        ([(0, N, "aside"), (1, N, "needed")], "line 3.*line 2"),
    ],
)
def test_a_wrong_sheet_is_refused_at_its_place(tmp_path, cells, told):
    path = sheet(tmp_path)
    # The tools are in random order.
    frame = pl.read_csv(path, infer_schema=False).sort(
        "request_id", "tool", maintain_order=True
    )
    frame.write_csv(path)
    with pytest.raises(InputError, match=re.compile(told, re.DOTALL)):
        read_reviews([edit(path, *cells)], BANK, tmp_path / "candidates.parquet")


@pytest.mark.parametrize(
    "content",
    [{}, [1], [{"id": 1}], [{"fields": {"request_id": "q0"}}], [{"data": []}]],
)
def test_another_json_file_is_no_sheet(tmp_path, content):
    write_json(tmp_path / "x.json", content)
    with pytest.raises(InputError, match=r"x\.json.*not a sheet"):
        read_reviews([tmp_path / "x.json"], BANK, tmp_path / "none.parquet")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [("x.CSV", "", "Rename"), ("x.csv", "", "not a sheet"), ("x.json", "[]", "not a")],
)
def test_a_file_without_judgements_is_refused(tmp_path, name, content, told):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=rf"{name}.*{told}"):
        read_reviews([tmp_path / name], BANK, tmp_path / "none.parquet")


@pytest.mark.parametrize("form", FORMS)
def test_judgements_may_be_in_capitals(tmp_path, form):
    judge = lambda _, tool: ("Needed " if tool == "kit.t1" else "NO", "", "")  # noqa: E731
    path = fill(sheet(tmp_path, form), form, judge)
    gradings, _ = read_reviews([path], BANK, tmp_path / "candidates.parquet")
    assert [[label.tool for label in one.labels] for one in gradings] == [
        ["kit.t1"]
    ] * len(BANK.queries)


@pytest.mark.parametrize("form", FORMS)
def test_a_request_that_is_only_begun_does_not_count(tmp_path, form):
    begun = {("q0", "kit.t3"): "no", ("q1", "kit.t3"): "needed"}
    judge = lambda query, tool: (begun.get((query, tool), ""), "", "")  # noqa: E731
    path = fill(sheet(tmp_path, form), form, judge)
    found, unfinished = read_reviews([path], BANK, tmp_path / "candidates.parquet")
    # A person who fills in a table leaves the others blank.
    assert [one.query for one in found] == (["q1"] if form == "csv" else [])
    assert ("ann", "q0") in unfinished


def grader(call):
    """Needs the first offered tool by name."""
    if "# How to grade" not in call.prompt:
        return good(call)
    needed = [{"tool": min(shown(call)[1]), "why": ""}]
    return Answer.json({"needed": needed, "alternatives": [], "aside": ""})


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviewed")
    (folder / "prompts").mkdir()
    own = shipped("prompts").joinpath("verify.j2").read_text() + "\nBe strict.\n"
    (folder / "prompts" / "verify.j2").write_text(own)
    with ChatServer(grader) as server:
        write_recipe(folder, engine="rules", queries=20)
        by = f"verify={{engine: openai, base_url: '{server.url}', model: m, candidates: 4}}"
        done = do(folder, "run", "mine.yaml", "--until", "verify", "--set", by)
        yield folder, done, server


def test_people_review_a_run(verified, tmp_path):
    made, _, server = verified
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    # The run has its own copy.
    shutil.rmtree(tmp_path / "prompts")
    [run] = (tmp_path / "runs").iterdir()
    asked = len(server.calls)
    choices = {"ann": 0, "bob": 0, "cid": -1}
    for name in choices:
        do(tmp_path, "review", "export", run, "--sample", 6, "--out", f"{name}.csv")
    sheets = [
        pl.read_csv(tmp_path / f"{name}.csv", infer_schema=False) for name in choices
    ]
    assert sheets[0].equals(sheets[1])
    assert sheets[0]["request_id"].n_unique() == 6
    assert set(sheets[0]["grade_now"]) == {"needed", "no"}
    do(tmp_path, "review", "export", run, "--out", "ann.csv", code=2)
    more = "--form", "argilla", "--blind", "--sample", 2
    do(tmp_path, "review", "export", run, "--out", "dot", *more)
    tools = {
        query: sorted(group["tool"])
        for (query,), group in sheets[0].group_by("request_id")
    }
    for name, place in choices.items():
        first = {query: names[place] for query, names in tools.items()}
        fill(
            tmp_path / f"{name}.csv",
            "csv",
            lambda q, t, first=first: ("needed" if first[q] == t else "", "", ""),
            person="",
        )
    told = do(tmp_path, "review", "import", run, "ann.csv", "bob.csv", "cid.csv")
    assert "18 graded requests by ann, bob, cid" in told.stdout
    assert "ann and bob: Cohen's kappa 1.00" in told.stdout
    assert "3 people: Fleiss' kappa" in told.stdout
    found = read_json(run / "verify.json")
    pairs = {frozenset(p["graders"]): p for p in found["kappa"]["pairs"]}
    assert pairs[frozenset({"ann", "m"})]["requests"] == 6
    labels = read_labels(run / "bank" / "labels.parquet")
    by_people = {one.query: one.tool for one in labels if one.kind == "person"}
    assert by_people == {query: names[0] for query, names in tools.items()}
    assert found["open"] == []
    query, names = next(iter(tools.items()))
    said = do(tmp_path, "show", run, query).stdout
    assert f"the person cid: needed {names[-1]}" in said
    assert f"the person bob: needed {names[0]}" in said
    assert "ann and bob: Cohen's kappa" in do(tmp_path, "show", run).stdout
    fill(tmp_path / "dot", "argilla", lambda q, t: ("no", "", "no use"), person="dot")
    do(tmp_path, "review", "import", run, "dot")
    # What was said of tools that are not needed is kept, too.
    [kept] = (run / "verify" / "reviews").glob("*/records.json")
    assert kept.read_bytes() == (tmp_path / "dot" / "records.json").read_bytes()
    found = read_json(run / "verify.json")
    assert [one["source"] for one in found["graders"]][:4] == [
        "ann",
        "bob",
        "cid",
        "dot",
    ]
    do(tmp_path, "review", "import", run, "cid.csv")
    assert read_json(run / "verify.json")["kappa"] == found["kappa"]
    assert len(server.calls) == asked


def test_a_wrong_sheet_changes_nothing_in_a_run(verified, tmp_path):
    made, *_ = verified
    [run] = (made / "runs").iterdir()
    before = (run / "verify" / "grades.parquet").read_bytes()
    (tmp_path / "ann.csv").write_text("request_id,tool\nq1,x\n")
    told = do(made, "review", "import", run, tmp_path / "ann.csv", code=2).stderr
    assert "ann.csv, line 2" in told
    assert "'judgement'" in told
    assert (run / "verify" / "grades.parquet").read_bytes() == before


def test_the_json_of_label_studio_is_a_list_of_tasks_for_its_configuration(tmp_path):
    path = sheet(tmp_path, "label-studio")
    config = path.with_suffix(".xml").read_text()
    for task in json.loads(path.read_text()):
        assert {*re.findall(r'value="\$(\w+)"', config)} <= task["data"].keys()


def test_a_folder_of_argilla_has_the_settings_that_its_records_need(tmp_path):
    path = sheet(tmp_path, "argilla")
    settings = read_json(path / ".argilla" / "settings.json")
    assert read_json(path / ".argilla" / "dataset.json")["name"] == "kit"
    fields = {one["name"] for one in settings["fields"]}
    kinds = {one["name"]: one["settings"]["type"] for one in settings["questions"]}
    assert kinds == {
        "judgement": "label_selection",
        "alternative_for": "text",
        "note": "text",
    }
    for record in read_json(path / "records.json"):
        assert record["fields"].keys() == fields
        assert {"id", "suggestions", "responses"} <= record.keys()
        assert record["suggestions"].keys() <= kinds.keys()
