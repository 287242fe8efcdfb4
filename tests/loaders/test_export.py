"""A bank exported is the same bank."""

import json

import datasets
import pytest

from toolbank.bank import Bank, Provenance, Query, Returned, Tool
from toolbank.errors import InputError, ToolbankError
from toolbank.loaders.export import FORMATS, export_bank


@pytest.fixture
def bank():
    tool = Tool(
        name="np.sum",
        kind="function",
        summary="Sum — of “elements”.",
        description="Over an axis.",
        parameters={"type": "object", "properties": {"a": {"type": "array"}}},
        returns=(Returned(name="out", type="array"),),
        aliases=("np.add.reduce",),
    )
    provenance = Provenance(
        attempt=3, engine="recorded", model="m", prompt_hash="h", seed=0
    )
    queries = (
        Query(
            id="1",
            query="Add <b>them</b> up\nplease",
            draft="Sum.",
            tools=("np.sum", "np.mean"),
            explanation="one",
            domain="numpy",
            split="train",
            provenance=provenance,
        ),
        Query(id="2", query="total", tools=("np.sum",), split="test"),
        Query(id="3", query="no split yet", tools=("np.sum",)),
    )
    return Bank((tool,), queries)


def test_datasets_round_trip(bank, tmp_path):
    export_bank(bank, "datasets", tmp_path / "out")
    loaded = datasets.load_from_disk(str(tmp_path / "out"))
    assert {split: len(rows) for split, rows in loaded.items()} == {
        "train": 2,
        "validation": 0,
        "test": 1,
    }
    row = loaded["train"][0]
    assert row["refined_instruction"] == bank.queries[0].query
    assert row["functions"] == ["np.sum", "np.mean"]
    assert row["explanation"] == "one"
    assert (
        Provenance.model_validate_json(row["provenance"]) == bank.queries[0].provenance
    )
    assert loaded["validation"].features == loaded["train"].features
    loaded["train"].to_parquet(tmp_path / "train.parquet")


def test_datasets_come_with_a_card_and_the_tools(bank, tmp_path):
    written = export_bank(bank, "datasets", tmp_path)
    assert tmp_path / "README.md" in written
    card = (tmp_path / "README.md").read_text()
    assert card.startswith("---\n")
    assert "| train | 2 |" in card
    assert "numpy" in card
    assert (tmp_path / "tools.jsonl").is_file()


def test_a_second_export_replaces_the_first(bank, tmp_path):
    export_bank(bank, "datasets", tmp_path)
    export_bank(Bank(bank.tools, bank.queries[:1]), "datasets", tmp_path)
    assert len(datasets.load_from_disk(str(tmp_path))["test"]) == 0
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_jsonl_read_back_equals_the_bank(bank, tmp_path):
    export_bank(bank, "jsonl", tmp_path)

    def lines(name):
        return (tmp_path / name).read_text(encoding="utf-8").splitlines()

    tools = tuple(Tool.model_validate_json(line) for line in lines("tools.jsonl"))
    queries = tuple(Query.model_validate_json(line) for line in lines("queries.jsonl"))
    assert Bank(tools, queries) == bank


def test_toolbank_format_has_the_published_columns(bank, tmp_path):
    export_bank(bank, "toolbank", tmp_path)
    rows = json.loads((tmp_path / "test.json").read_text())
    assert rows == [
        {"refined_instruction": "total", "functions": ["np.sum"], "explanation": ""}
    ]
    assert json.loads((tmp_path / "validation.json").read_text()) == []


def test_functions_are_in_the_function_calling_format(bank, tmp_path):
    (path,) = export_bank(bank, "functions", tmp_path)
    assert json.loads(path.read_text()) == [bank.tools[0].as_function()]


def test_an_unknown_format_names_the_known(bank, tmp_path):
    with pytest.raises(InputError, match="datasets, jsonl, toolbank, functions"):
        export_bank(bank, "csv", tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_a_folder_that_is_a_file_is_told(bank, tmp_path, form):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ToolbankError, match="can't write"):
        export_bank(bank, form, tmp_path / "taken")
