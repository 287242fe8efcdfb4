"""A bank exported is the same bank."""

import json
import re
from dataclasses import replace
from pathlib import Path

import datasets
import pytest

from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Ask, Provenance, Query, ReturnValue, Tool, hashed_name
from toolbank.publish.exports import EXPORTS, export_bank, export_folder
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.folders import MARK


@pytest.fixture
def bank():
    tool = Tool(
        name="np.sum",
        summary="Sum — of “elements”.",
        description="Over an axis.",
        parameters={"type": "object", "properties": {"a": {"type": "array"}}},
        returns=(ReturnValue(name="out", type="array"),),
        aliases=("np.add.reduce",),
    )
    made = Provenance(attempt=3, engine="recorded", model="m", prompt_hash="h", seed=0)
    texts = {
        "query": "Add <b>them</b> up\nplease",
        "draft": "Sum.",
        "explanation": "one",
    }
    first = Query(
        **{"id": "1", **texts, "tools": ("np.sum", "np.mean"), "domain": "numpy"},
        **{"split": "train", "provenance": made},
    )
    second = Query(id="2", query="total", tools=("np.sum",), split="test")
    third = Query(id="3", query="no split yet", tools=("np.sum",))
    asks = (Ask(tool="np.sum", kind="terse", ask="add it up"),)
    return Bank((tool,), (first, second, third), asks=asks)


def test_datasets_round_trip(bank, tmp_path):
    export_bank(bank, "datasets", tmp_path / "out")
    loaded = datasets.load_from_disk(str(tmp_path / "out"))
    assert loaded.num_rows == {"train": 2, "validation": 0, "test": 1}
    row = loaded["train"][0]
    assert row["refined_instruction"] == bank.queries[0].query
    assert row["functions"] == ["np.sum", "np.mean"]
    assert row["explanation"] == "one"
    provenance = Provenance.model_validate_json(row["provenance"])
    assert provenance == bank.queries[0].provenance
    assert loaded["validation"].features == loaded["train"].features
    card = (tmp_path / "out/README.md").read_text()
    assert card.startswith("---\n")
    assert all(part in card for part in ("| train | 2 |", "numpy", "`asks.jsonl`"))
    assert "add it up" in (tmp_path / "out/asks.jsonl").read_text()
    assert (tmp_path / "out/tools.jsonl").is_file()
    loaded["train"].to_parquet(tmp_path / "train.parquet")


def test_queries_that_are_withheld_from_training_stay_out_of_it(bank, tmp_path):
    withheld = Bank(bank.tools, bank.queries, {"splits": {"train": 1}})
    export_bank(withheld, "datasets", tmp_path)
    assert len(datasets.load_from_disk(str(tmp_path))["train"]) == 1
    card = (tmp_path / "README.md").read_text()
    assert "| train | 1 |" in card and "| in no split, not exported |" in card


@pytest.mark.parametrize("form", EXPORTS.names)
def test_an_export_of_any_format_is_replaced_and_all_else_is_kept(bank, tmp_path, form):
    export_bank(bank, form, tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    again = Bank(bank.tools[:0], bank.queries[:1])
    assert export_bank(again, form, tmp_path) == export_bank(again, form, tmp_path)
    export_bank(again, form, tmp_path / "fresh")
    for path in (tmp_path / "fresh").rglob("*.js*"):
        same = tmp_path / path.relative_to(tmp_path / "fresh")
        assert "state.json" in path.name or same.read_bytes() == path.read_bytes()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert not [*tmp_path.glob("asks.json*")]
    hidden = [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert hidden == [MARK]


def files_under(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("form", "name", "told"),
    [
        ("csv", "out", "datasets, jsonl, toolbank, beir"),
        ("jsonl", "taken", "a file, and an export needs a folder"),
        ("toolbank", "edited", r"test\.json"),
        ("datasets", "mine", r"notes\.txt"),
    ],
)
def test_an_impossible_export_changes_nothing(bank, tmp_path, form, name, told):
    (tmp_path / "taken").write_text("")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("dear")
    export_bank(bank, "toolbank", tmp_path / "edited")
    (tmp_path / "edited/test.json").write_text("my own words")
    before = files_under(tmp_path)
    with pytest.raises(InputError, match=told):
        export_bank(bank, form, tmp_path / name)
    assert files_under(tmp_path) == before


@pytest.mark.parametrize("ordered", [False, True])
def test_the_card_of_data_of_ones_own_says_what_is_true(bank, tmp_path, ordered):
    query = Query(id="1", query="Add them up", tools=("np.sum",), split="train")
    own = Bank(bank.tools, (query,), {"ordered": ordered})
    export_bank(own, "datasets", tmp_path)
    card = (tmp_path / "README.md").read_text()
    for untrue in ("synthetic", "polish", "language: en", "prompt", "asks.jsonl"):
        assert untrue not in card
    assert ("call order" in card) == ordered


def test_an_export_cut_short_can_be_replaced(bank, tmp_path, monkeypatch):
    export_bank(bank, "toolbank", tmp_path)
    replace = Path.replace

    def fail_at_last(self, target):
        if self.name == "validation.json" and self.parent.name == "made":
            raise OSError("cut short")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail_at_last)
    with pytest.raises(ToolbankError, match="cut short"):
        export_bank(Bank(bank.tools, bank.queries[:1]), "toolbank", tmp_path)
    monkeypatch.undo()
    export_bank(bank, "toolbank", tmp_path)
    assert len(json.loads((tmp_path / "test.json").read_text())) == 1


@pytest.mark.parametrize("form", EXPORTS.names)
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_folder_is_exported_as_its_bank_is(bank, tmp_path, form, is_whole):
    label = Label.alternative(bank.queries[0].id, "np.mean", "np.sum", "nearly")
    bank = replace(bank, labels=(label,)) if is_whole else replace(bank, asks=())
    bank.save(tmp_path / "bank")
    export_bank(bank, form, tmp_path / "one")
    export_folder(tmp_path / "bank", form, tmp_path / "two")
    one, two = (
        {
            path.relative_to(folder): content
            for path, content in files_under(folder).items()
            if path.suffix in {".jsonl", ".md"} or form != "datasets"
        }
        for folder in (tmp_path / "one", tmp_path / "two")
    )
    assert one
    assert one == two


def test_a_damaged_bank_leaves_an_earlier_export_as_it_is(bank, tmp_path):
    bank.save(tmp_path / "bank")
    export_folder(tmp_path / "bank", "jsonl", tmp_path / "out")
    before = files_under(tmp_path / "out")
    (tmp_path / "bank/queries.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"queries\.parquet: damaged"):
        export_folder(tmp_path / "bank", "jsonl", tmp_path / "out")
    assert files_under(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("info", "text", "language"),
    [
        ({"generate": {}, "language": "ja"}, "total", "jpn-Jpan"),
        ({"generate": {}}, "total", "eng-Latn"),
        ({}, "What do all of the things that we sold in March add up to?", "eng-Latn"),
        ({}, "Was haben alle Kunden im März zusammen für Kaffee bezahlt?", "deu-Latn"),
    ],
)
def test_a_task_of_mteb_has_the_language_of_the_bank(tmp_path, info, text, language):
    query = Query(id="1", query=text, tools=("sum",), split="test")
    export_bank(Bank((Tool(name="sum"),), (query,), info), "mteb", tmp_path)
    assert f'eval_langs=["{language}"]' in (tmp_path / "task.py").read_text()


@pytest.mark.parametrize("form", ["beir", "mteb", "toolret", "sentence-transformers"])
def test_labels_that_a_format_omits_are_counted(bank, tmp_path, form, capfd):
    export_bank(bank, form, tmp_path)
    assert "1 label names no tool of the bank" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("beir", {"queries.jsonl"}),
        ("datasets", {"missing.jsonl"}),
        ("jsonl", {"queries.jsonl"}),
        *((form, set()) for form in ("mteb", "toolret", "sentence-transformers")),
        ("toolbank", set()),
    ],
)
def test_a_request_that_no_tool_fits_has_no_labels(bank, tmp_path, form, expected):
    unserved = Query(id="unserved", query="insure it", tools=(), split="test")
    grade = {"grade": "aside", "kind": "model", "source": "m"}
    label = Label(query="unserved", reason="nothing fits", **grade)
    export_bank(replace(bank, missing=(unserved,), labels=(label,)), form, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    found = {path.name for path in files if b"insure it" in path.read_bytes()}
    assert found == expected
    named = {path.name for path in files if b"unserved" in path.read_bytes()}
    assert named - {"labels.jsonl"} == expected


def test_toolbank_format_has_the_published_columns(bank, tmp_path):
    export_bank(bank, "toolbank", tmp_path)
    columns = ("refined_instruction", "functions", "explanation")
    for name, rows in (
        ("test", [("total", ["np.sum"], "")]),
        ("validation", []),
        ("asks", [("add it up", ["np.sum"], "")]),
    ):
        found = json.loads((tmp_path / f"{name}.json").read_text())
        assert found == [dict(zip(columns, row, strict=True)) for row in rows]


def test_functions_have_names_of_their_own_whatever_the_order(tmp_path):
    told = ("a.b", "a_b", "a b", "c.d", "x.y", "x_y", hashed_name("x.y"), "e" * 99)
    tools = tuple(Tool(name=name, summary="Do it.") for name in told)
    found = []
    for number, listed in enumerate((tools, tools[::-1])):
        folder = tmp_path / str(number)
        names, functions = export_bank(Bank(listed), "functions", folder)
        by_function = json.loads(names.read_text())
        entries = [one["function"] for one in json.loads(functions.read_text())]
        called = [entry["name"] for entry in entries]
        assert len(set(called)) == len(tools)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in called)
        assert [by_function[name] for name in called] == [t.name for t in listed]
        whole = [t.as_function()["function"]["parameters"] for t in listed]
        assert [entry["parameters"] for entry in entries] == whole
        found.append(by_function)
    assert found[0] == found[1]
    assert found[0]["c_d"] == "c.d"
