"""Datasets of others: every layout is read, and what can't be used is counted."""

import json

import datasets
import polars as pl
import pytest

from tests.corpus_files import CORPUS, check_expected
from tests.datasets.loaders.samples import config, make
from tests.shared import shared
from tests.world import write_dataset, write_lines
from toolbank.bank.bank import Bank, Label, SkipCounter
from toolbank.bank.files import write_tools
from toolbank.bank.records import Ask, Provenance, Query, Tool
from toolbank.datasets import DATASETS, find_format
from toolbank.datasets.gather import gather
from toolbank.publish.exports import export_bank
from toolbank.system.errors import InputError

CONVERSATIONS = "toolbench-conversations"


def read(kind, folder, **more):
    return DATASETS.load(kind).read(config(kind, folder, **more))


def labels(dataset):
    return {q.query: (q.tools, q.split) for q in dataset.queries}


@pytest.mark.parametrize(
    "kind", ["jsonl", "toolbank", "toolbench", "toollens", CONVERSATIONS]
)
def test_a_dataset_is_read_as_expected(kind, tmp_path, update_corpus):
    make(kind, tmp_path)
    dataset = read(kind, tmp_path)
    found = {"left_out": dataset.left_out.counts}
    for part in ("tools", "queries", "asks"):
        rows = getattr(dataset, part)
        found[part] = [row.model_dump(exclude_defaults=True) for row in rows]
    expected = CORPUS / "datasets" / f"{kind}.json"
    check_expected(expected, found, update=update_corpus)


def test_jsonl_of_functions_as_models_are_told_of_them(tmp_path):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    said = {"name": "rain", "description": "Tell if it rains."}
    tools = [
        {"type": "function", "function": {**said, "parameters": schema}},
        {**said, "name": "sun", "inputSchema": schema, "aliases": ["shine"]},
    ]
    queries = [{"query": "is it dry?", "tools": ["rain", "shine"]}]
    write_dataset(tmp_path, tools, queries)
    dataset = read("jsonl", tmp_path)
    assert [tool.summary for tool in dataset.tools] == ["Tell if it rains."] * 2
    assert all(tool.parameters == schema for tool in dataset.tools)
    assert labels(dataset) == {"is it dry?": (("rain", "sun"), None)}
    assert not dataset.left_out.counts


@pytest.mark.parametrize("key", ["parameters", "inputSchema"])
def test_any_schema_of_an_object_is_kept(tmp_path, key):
    place = {"type": "object", "properties": {"city": {"type": "string"}}}
    schemas = [
        {"$ref": "#/$defs/Place", "$defs": {"Place": place}},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {"anyOf": [place, {"type": "object", "required": ["zip"]}]},
        {"type": "object", "properties": {"anything": True}},
    ]
    said = {"description": "Do."}
    tools = [{"name": f"t{n}", **said, key: one} for n, one in enumerate(schemas)]
    write_dataset(tmp_path, tools, [{"query": "do", "tools": ["t0"]}])
    assert [tool.parameters for tool in read("jsonl", tmp_path).tools] == schemas


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


def test_documents_of_one_name_are_tools_of_their_own(tmp_path):
    make("toolbench", tmp_path)
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text(corpus.read_text().replace('""One""', '""List""'))
    names = [tool.name for tool in read("toolbench", tmp_path).tools]
    assert names == ["Cocktails::List", "Cocktails::List #2"]


def test_what_can_not_be_used_is_counted_with_its_reason(tmp_path):
    rows = [
        ("1", "do a", "a", "train"),
        ("1", "do a", "a", "train"),
        ("1", "another", "a", "train"),
        ("2", "  ", "a", "train"),
        ("3", "nothing", "", "train"),
        ("4", "strange", "az", "train"),
        ("5", "twice", "aa", "train"),
        ("6", "exam", "a", "train"),
        ("7", "exam", "a", "test"),
        ("8", "other exam", "a", "test_hard"),
    ]
    queries = [
        {"id": name, "query": text, "tools": list(used), "split": split}
        for name, text, used, split in rows
    ]
    write_dataset(tmp_path, ["a", "b", "a"], queries)
    dataset = read("jsonl", tmp_path)
    assert [query.id for query in dataset.queries] == ["1", "5", "7"]
    assert dataset.queries[1].tools == ("a",)
    assert dataset.left_out.counts == {
        "tool: listed twice": 1,
        "query: listed twice": 1,
        "query: its id is another's": 1,
        "query: blank": 1,
        "query: needs no tool": 1,
        "query: needs a tool that is not listed": 1,
        "tool of a query: named twice": 1,
        "query: the same text is in the test": 1,
        "query: of the split 'test_hard'": 1,
    }
    needs = "query: needs a tool that is not listed"
    assert dataset.left_out.describe()[needs]["examples"] == ["4: z"]
    other = read("jsonl", tmp_path, test="test_hard")
    assert labels(other)["other exam"][1] == "test"
    assert other.left_out.counts["query: of the split 'test'"] == 1


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


def test_asks_that_can_not_be_used_are_counted_with_their_reason(tmp_path):
    make("jsonl", tmp_path)
    asks = [
        {"tool": "a", "kind": "plain", "ask": "a please", "provenance": "our forum"},
        {"tool": "a", "ask": "a please"},
        {"tool": "z", "ask": "z please"},
        {"tool": "a", "ask": "do b"},
    ]
    write_lines(tmp_path / "asks.jsonl", asks)
    dataset = read("jsonl", tmp_path)
    assert dataset.asks == (Ask(tool="a", kind="plain", ask="a please"),)
    assert dataset.left_out.counts == {
        "ask: listed twice": 1,
        "ask: for a tool that is not listed": 1,
        "ask: the same text is in the test": 1,
    }
    write_lines(tmp_path / "asks.jsonl", [*asks, {"tool": "a"}])
    with pytest.raises(InputError, match=r'asks\.jsonl(.|\n)*line 5: no "ask"'):
        read("jsonl", tmp_path)


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


@pytest.fixture
def conversations(tmp_path):
    """The file of the conversations to train on; that of the test lies in the same folder."""
    make(CONVERSATIONS, tmp_path)
    return tmp_path / "toolllama_G123_dfs_train.json"


@pytest.mark.parametrize("row", [{"id": "x"}, "text"])
def test_a_broken_conversation_is_named_by_its_place(tmp_path, conversations, row):
    whole = json.loads(conversations.read_text())
    conversations.write_text(json.dumps([*whole, row]))
    with pytest.raises(InputError, match=r"dfs_train.json, /1: not a conversation"):
        read(CONVERSATIONS, tmp_path)


def test_of_a_conversation_step_by_step_the_longest_counts(tmp_path, conversations):
    whole = read(CONVERSATIONS, tmp_path)
    for file in tmp_path.glob("*.json"):
        [row] = json.loads(file.read_text())
        turns = row["conversations"]
        steps = [n for n, turn in enumerate(turns, 1) if turn["from"] == "assistant"]
        rows = [
            {"id": f"Step {number}: x", "conversations": turns[:end]}
            for number, end in enumerate(steps, 1)
        ]
        file.write_text(json.dumps(rows))
    dataset = read(CONVERSATIONS, tmp_path)
    assert [(q.query, q.tools, q.explanation) for q in dataset.queries] == [
        (q.query, q.tools, q.explanation) for q in whole.queries
    ]
    earlier = "query: a conversation up to an earlier step"
    assert dataset.left_out.counts[earlier] == 2 * (len(steps) - 1)


def test_a_list_of_apis_may_hold_others_and_be_broken(tmp_path, conversations):
    text = conversations.read_text()
    text = text.replace("All of them.", "Such as [{}] and [{1: 2}].")
    broken = json.loads(text)[0]
    broken["conversations"][0]["value"] = "the following APIs: [{import os}]"
    conversations.write_text(json.dumps([*json.loads(text), broken]))
    dataset = read(CONVERSATIONS, tmp_path)
    assert dataset.tools[0].name == "list_for_cocktails"
    assert "[{1: 2}]" in (dataset.tools[0].summary + dataset.tools[0].description)
    assert dataset.left_out.counts["query: its list of APIs can't be read"] == 1
