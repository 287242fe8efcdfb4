"""Datasets of others: every layout is read, and what can't be used is counted."""

import json

import datasets
import polars as pl
import pytest

from tests.corpus_files import CORPUS, check_expected, corpus_files
from tests.datasets.loaders.samples import config, make
from tests.shared import shared
from tests.world import write_dataset
from toolbank.bank.bank import Bank, Label, SkipCounter
from toolbank.bank.files import write_tools
from toolbank.bank.records import Ask, Provenance, Query, Tool
from toolbank.datasets import DATASETS, find_format
from toolbank.datasets.gather import gather
from toolbank.publish.exports import export_bank
from toolbank.system.errors import InputError

CONVERSATIONS, LLAMA = "toolbench-conversations", "toolllama_G123_dfs"


def read(kind, folder, **more):
    return DATASETS.load(kind).read(config(kind, folder, **more))


def labels(dataset):
    return {q.query: (q.tools, q.split) for q in dataset.queries}


@pytest.mark.parametrize("place", corpus_files("datasets"), ids=lambda path: path.name)
def test_a_dataset_is_read_as_expected(place, update_corpus):
    is_kind = place.name in DATASETS.own
    given = config(place.name, place) if is_kind else find_format(place)
    dataset = DATASETS.load(given.type).read(given)
    found = {"type": given.type, "left_out": dataset.left_out.describe()}
    parts = ("tools", "queries", "asks", *(["missing"] if dataset.missing else []))
    for part in parts:
        rows = getattr(dataset, part)
        found[part] = [row.model_dump(exclude_defaults=True) for row in rows]
    expected = place.with_name(f"{place.name}.tools.json")
    check_expected(expected, found, {str(place): place.name}, update=update_corpus)


@pytest.mark.parametrize(
    "schema",
    [{"type": "banana"}, {"type": "string"}, {"properties": []}, "a city", [{"n": 1}]],
)
@pytest.mark.parametrize("more", [{}, {"kind": "function"}])
def test_what_is_no_schema_of_an_object_is_told(tmp_path, schema, more):
    tool = {"name": "a", "description": "Do.", "parameters": schema, **more}
    write_dataset(tmp_path, [tool], [])
    with pytest.raises(InputError, match=r'line 1: "parameters" is not a schema'):
        read("jsonl", tmp_path)


SUM = Tool(name="np.sum", summary="Sum.", aliases=("np.add",), tags=("math",))
MAX = Tool(name="np.max", summary="Largest.", twins=("np.amax",))
MADE = Provenance(
    attempt=3, engine="rules", model="", prompt_hash="h", seed=0, requests=("k",)
)
QUERIES = tuple(
    Query(
        **{"id": f"q{i}", "query": f"what of {i}?", "draft": "Do.", "domain": "numpy"},
        **{"tools": ("np.max", "np.sum"), "explanation": "why", "provenance": MADE},
        split=split,
    )
    for i, split in enumerate(("train", "validation", "test"))
)


def test_functions_of_alike_names_are_read_back_with_their_queries(tmp_path):
    tools = tuple(Tool(name=name, summary=name) for name in ("a.b", "a_b", "a b"))
    queries = tuple(
        Query(id=tool.name, query=f"do {tool.name}", tools=(tool.name,), split="train")
        for tool in tools
    )
    for form in ("toolbank", "functions"):
        export_bank(Bank(tools, queries), form, tmp_path)
    dataset = read("toolbank", tmp_path, tools=tmp_path / "functions.json")
    assert len(dataset.tools) == len(dataset.queries) == 3
    summary = {tool.name: tool.summary for tool in dataset.tools}
    assert {q.query: summary[q.tools[0]] for q in dataset.queries} == {
        f"do {tool.name}": tool.name for tool in tools
    }


@pytest.mark.parametrize("kind", ["toolbench", "toollens"])
def test_files_of_train_may_be_missing(tmp_path, kind):
    make(kind, tmp_path)
    whole = labels(read(kind, tmp_path))
    for path in [path for path in tmp_path.rglob("*") if "train" in path.name]:
        path.unlink()
    tested = {text: found for text, found in whole.items() if found[1] == "test"}
    assert labels(read(kind, tmp_path)) == tested


@pytest.mark.parametrize(
    ("corpus", "queries", "qrels"),
    [
        ("corpus/train-{}", "queries/train-{}", "qrels/{}-00000-of-00001"),
        ("corpus-{}", "queries-{}", "default/{}"),
        ("data/corpus-{}", "data/queries-{}", "data/{}-00000-of-00001"),
    ],
)
def test_layouts_of_mteb_are_read_as_that_of_beir(tmp_path, corpus, queries, qrels):
    make("toollens", tmp_path / "beir")
    for names, file in ((corpus, "corpus.jsonl"), (queries, "queries.jsonl")):
        rows = pl.read_ndjson(tmp_path / "beir" / file).drop("metadata", strict=False)
        for number, part in enumerate((rows[:1], rows[1:])):
            path = tmp_path / "mteb" / f"{names.format(number)}.parquet"
            part.rename({"_id": "id"}).write_parquet(path, mkdir=True)
    for path in (tmp_path / "beir" / "qrels").iterdir():
        rows = pl.read_csv(path, separator="\t").cast({"score": pl.Float64})
        named = tmp_path / "mteb" / f"{qrels.format(path.stem)}.parquet"
        rows.rename({"query-id": "query_id"}).write_parquet(named, mkdir=True)
    assert find_format(tmp_path / "mteb").type == "toollens"
    beir, mteb = (read("toollens", tmp_path / name) for name in ("beir", "mteb"))
    assert (mteb.tools, labels(mteb)) == (beir.tools, labels(beir))
    assert mteb.left_out.counts == beir.left_out.counts


def test_another_split_may_be_the_test():
    dataset = read("jsonl", CORPUS / "datasets/jsonl-unusable-rows", test="test_hard")
    assert labels(dataset)["other exam"][1] == "test"
    assert dataset.left_out.counts["query: of the split 'test'"] == 1


@pytest.mark.parametrize("form", ["datasets", "toolbank"])
def test_what_export_writes_is_read_back(tmp_path, form):
    export_bank(Bank((SUM, MAX), QUERIES), form, tmp_path / "out")
    described = tmp_path / "tools.parquet"
    write_tools(described, (SUM, MAX))
    dataset = read("toolbank", tmp_path / "out", tools=described)
    assert dataset.tools == (SUM, MAX)
    assert labels(dataset) == {q.query: (q.tools, q.split) for q in QUERIES}
    assert not dataset.left_out.counts
    described = tmp_path / "list.json"
    rows = [{"name": tool.name, "description": tool.summary} for tool in (SUM, MAX)]
    described.write_text(json.dumps(rows))
    listed = read("toolbank", tmp_path / "out", tools=described)
    assert labels(listed) == labels(dataset)
    assert [tool.summary for tool in listed.tools] == ["Sum.", "Largest."]
    described.write_text('[{"description": "no name"}]')
    with pytest.raises(InputError, match='entry 1: no "name"'):
        read("toolbank", tmp_path / "out", tools=described)


def test_a_bank_is_exported_and_read_back_with_its_asks_and_labels(tmp_path):
    asks = (
        Ask(tool="np.sum", kind="terse", ask="add up", provenance=MADE),
        Ask(tool="np.max", kind="terse", ask="add up"),
    )
    graded = (Label(query="q0", tool="np.max", grade="needed"),)
    bank = Bank((SUM, MAX), QUERIES, asks=asks, labels=graded)
    export_bank(bank, "jsonl", tmp_path)
    dataset = read("jsonl", tmp_path)
    merged = (QUERIES[0].model_copy(update={"tools": ("np.max",)}), *QUERIES[1:])
    assert (dataset.tools, dataset.queries, dataset.asks) == (bank.tools, merged, asks)
    stored = (tmp_path / "labels.jsonl").read_text()
    assert Label.model_validate_json(stored) == graded[0]
    first = (tmp_path / "queries.jsonl").read_text().partition("\n")[0]
    assert json.loads(first)["tools_first"] == ["np.max", "np.sum"]
    assert not dataset.left_out.counts


def test_toolbank_in_parquet_parts(tmp_path):
    make("toolbank", tmp_path)
    row = {"refined_instruction": ["part?"], "functions": [["np.sum"]]}
    (tmp_path / "data").mkdir()
    part = tmp_path / "data" / "train-00000-of-00001.parquet"
    datasets.Dataset.from_dict(row).to_parquet(part)
    assert labels(read("toolbank", tmp_path))["part?"] == (("np.sum",), "train")
    found = config("toolbank", tmp_path)
    assert part in DATASETS.load("toolbank").find_files(found)


OTHER_SPLIT = '{"query": "x", "tools": ["a"], "split": "no"}'
QRELS = "query-id\tcorpus-id\tscore\n"


@pytest.mark.parametrize(
    ("kind", "name", "content", "told"),
    [
        ("jsonl", "queries.jsonl", '{"query": "x"}', 'line 1: no "tools"'),
        ("jsonl", "tools.jsonl", '{"name": " "}', "line 1"),
        ("jsonl", "asks.jsonl", '{"tool": "a"}', 'line 1: no "ask"'),
        ("jsonl", "queries.jsonl", OTHER_SPLIT, "'no'"),
        ("toolbank", "train.json", '[{"functions": []}]', "row 1"),
        ("toolbank", "train.json", "{}", "not a list"),
        ("toolbank", "tools.json", '{"a": 3}', "'a'"),
        ("toolbench", "corpus.tsv", "docid\tdocument_content\n1\t{", "line 2"),
        ("toolbench", "corpus.tsv", "id\ttext\n1\t{}", "line 1: the columns are id"),
        ("toolbench", "qrels.train.tsv", "5\t0\t1\n", "line 1: 3 columns"),
        ("toolbench", "qrels.train.tsv", None, "no such file"),
        ("toolbank", "tools.json", None, "no such file"),
        ("toolbench", "qrels.test.tsv", "5\t0\t1\tyes\n", "line 1"),
        (CONVERSATIONS, f"{LLAMA}_train.json", '[{"id": "x"}]', "/0: not a conv"),
        (CONVERSATIONS, f"{LLAMA}_eval.json", '["text"]', "/0: not a conversation"),
        ("toollens", "corpus.jsonl", '{"text": "x"}', "line 1"),
        ("toollens", "qrels/train.tsv", "query-id\tcorpus-id\n8\t1\n", "line 2"),
        ("toollens", "qrels/test.tsv", f"{QRELS}8\t1\ta\n", "line 2"),
    ],
)
def test_a_broken_file_is_told_with_its_place(tmp_path, kind, name, content, told):
    make(kind, tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        read(kind, tmp_path)
    assert str(tmp_path / name) in str(caught.value)
    assert told in str(caught.value)


def test_a_dataset_without_descriptions_names_the_setting(tmp_path):
    make("toolbank", tmp_path)
    with pytest.raises(InputError, match=r"dataset\.tools"):
        read("toolbank", tmp_path, tools=None)


@pytest.mark.parametrize(
    ("name", "tools", "queries", "tested"),
    [("ultratool", 260, 3527, 500), ("toollens", 464, 18770, 1877)],
)
def test_public_sets_are_read_whole(name, tools, queries, tested):
    dataset = read("jsonl", shared(f"data/{name}"))
    left_out = sum(dataset.left_out.counts.values())
    assert len(dataset.tools) == tools
    assert len(dataset.queries) + left_out == queries
    assert left_out <= 1
    assert sum(q.split == "test" for q in dataset.queries) == tested


A, B = (Label(query="1", tool=name, grade="needed") for name in "ab")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([A, Label.alternative("1", "b", "a", "so")], 2),
        ([A, Label.alternative("1", "b", "", "so")], 0),
        ([Label.alternative("1", "b", "a", "so")], 0),
        ([A, B.model_copy(update={"tool": "unlisted"})], 0),
        ([Label(query="1", grade="aside", reason="so")], 1),
        ([A, Label(query="1", grade="aside", reason="so")], 0),
        ([A.model_copy(update={"tool": ""})], 0),
    ],
)
def test_the_labels_of_a_request_count_together_or_not_at_all(given, kept):
    tools = [Tool(name="a"), Tool(name="b", kind="function")]
    query = Query(id="1", query="do it", tools=("a",))
    dataset = gather(tools, [query], SkipCounter(), labels=given)
    assert len(dataset.labels) == kept
    assert sum(dataset.left_out.counts.values()) == len(given) - kept
