"""A small dataset in each format."""

import json
import shutil

from tests.world import write_lines
from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Ask, Query, Tool
from toolbank.datasets import DATASETS
from toolbank.publish.data import write_data

API = {
    "category_name": "Food",
    "tool_name": "Cocktails",
    "api_name": "List",
    "api_description": "All of them.",
    "required_parameters": [{"name": "q", "type": "STRING", "description": "words"}],
    "optional_parameters": [{"name": "n", "type": "NUMBER", "description": ""}],
}
DOCUMENT = (
    "category_name:Food, tool_name:Cocktails, api_name:List, api_description:All of them., "
    'required_params: [{"name": "q", "type": "STRING", "description": "words"}], '
    'optional_params: [], return_schema: ""'
)


def table(path, rows):
    """As pandas writes it: a cell is quoted where it has to be."""
    import pandas

    path.parent.mkdir(parents=True, exist_ok=True)
    pandas.DataFrame(rows).to_csv(path, sep="\t", index=False, header=False)


def make_jsonl(folder):
    folder.mkdir(parents=True, exist_ok=True)
    write_lines(
        folder / "tools.jsonl",
        [
            {"name": "a", "description": "Does a.\n\nAt length.", "domain": ["x"]},
            {"name": "b", "arguments": {"type": "object", "properties": {"n": {}}}},
        ],
    )
    rows = [
        {"id": "1", "query": "do a", "tools": ["a"], "split": "train"},
        {"id": "2", "query": "do b", "tools": ["b", "a"], "split": "test"},
    ]
    write_lines(folder / "queries.jsonl", rows)
    write_lines(folder / "asks.jsonl", [{"tool": "b", "kind": "terse", "ask": "b it"}])


def make_toolbank(folder):
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "np.acos": {"new_func": "inverse_cosine", "description": "The angle."},
        "np.arccos": {"new_func": "inverse_cosine", "description": "The angle, again."},
        "np.sum": {"new_func": "summation", "description": "The sum."},
    }
    (folder / "tools.json").write_text(json.dumps(content))
    for name, tools in (
        ("train", ["summation", "np.arccos"]),
        ("test", ["inverse_cosine"]),
    ):
        row = {
            "refined_instruction": f"What is the {name}?",
            "functions": tools,
            "explanation": "e",
        }
        (folder / f"{name}.json").write_text(json.dumps([row]))


def make_toolbench(folder):
    content = json.dumps(API)
    corpus = [("docid", "document_content"), (1, content), (1, content)]
    table(folder / "corpus.tsv", [*corpus, (2, json.dumps({**API, "api_name": "One"}))])
    table(
        folder / "train.query.txt", [(5, 'a "list"\tof them'), (5, 'a "list"\tof them')]
    )
    table(folder / "test.query.txt", [(6, "one of them")])
    table(folder / "qrels.train.tsv", [(5, 0, 1, 1), (5, 0, 2, 1)])
    table(folder / "qrels.test.tsv", [(6, 0, 2, 1)])


def make_conversations(folder):
    apis = [
        {
            "name": "list_for_cocktails",
            "description": "All of them.",
            "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        },
        {"name": "one_for_cocktails", "description": "One.", "parameters": {}},
        {"name": "Finish", "description": "Give the answer.", "parameters": {}},
    ]
    said = [
        ("system", f"Specifically, you have access to the following APIs: {apis}"),
        ("user", "\nWhich cocktails are there?\nBegin!\n"),
        (
            "assistant",
            "\nThought: First\nall.\nAction: list_for_cocktails\nAction Input: {}",
        ),
        ("function", '{"response": []}'),
        ("assistant", "\nThought: \nAction: one_for_cocktails\nAction Input: {}"),
        ("function", "{}"),
        ("assistant", "\nThought: Done.\nAction: Finish\nAction Input: {}"),
    ]
    for number, split in enumerate(("train", "eval")):
        turns = [{"from": who, "value": text} for who, text in said]
        turns[1]["value"] += str(number)
        rows = [{"id": "x", "conversations": turns}]
        path = folder / f"toolllama_G123_dfs_{split}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(rows))


def make_toollens(folder):
    folder.mkdir(parents=True, exist_ok=True)
    documents = [
        {"_id": "0", "title": "", "text": DOCUMENT, "metadata": {}},
        {"_id": "1", "title": "Other", "text": "Something else."},
    ]
    write_lines(folder / "corpus.jsonl", documents)
    queries = [{"_id": "7", "text": "list them"}, {"_id": "8", "text": "else"}]
    write_lines(folder / "queries.jsonl", queries)
    header = ("query-id", "corpus-id", "score")
    table(folder / "qrels" / "train.tsv", [header, (7, 0, 1), (7, 1, 1)])
    table(folder / "qrels" / "test.tsv", [header, (8, 1, 1)])


def make_published(folder):
    bank = folder / "bank"
    tools = (Tool(name="a", summary="Does a.", aliases=("aa",)), Tool(name="b"))
    queries = (
        Query(id="1", query="do a", tools=("a",), split="train"),
        Query(id="2", query="do b", tools=("b", "aa"), split="test"),
    )
    asks = (Ask(tool="b", kind="terse", ask="b it"),)
    labels = (Label(query="2", tool="b", grade="needed"),)
    Bank(tools, queries, asks=asks, labels=labels).save(bank)
    write_data(bank, folder / "data")
    shutil.rmtree(bank)


FUNCTIONS = [
    {
        "name": "tide",
        "description": "List tides.",
        "parameters": {"port": {"type": "str"}},
    },
    {"name": "berth", "description": "Find berths.", "parameters": {}},
]


def make_function_calling(folder):
    for split, name in (("train", "tide"), ("test", "berth")):
        row = {
            "query": f"the {name} for a {split}",
            "tools": json.dumps(FUNCTIONS),
            "answers": json.dumps([{"name": name, "arguments": {}}]),
        }
        (folder / f"{split}.json").write_text(json.dumps([row]))


def make_toolret(folder):
    tools = [{"id": f["name"], "documentation": json.dumps(f)} for f in FUNCTIONS]
    (folder / "web").mkdir()
    write_lines(folder / "web" / "tools.jsonl", tools)
    rows = [
        {"id": f"{split}_1", "query": f"{name} {split}", "split": split}
        | {"labels": [{"id": name, "relevance": 1}, {"id": "berth", "relevance": 0}]}
        for split, name in (("train", "tide"), ("test", "berth"))
    ]
    rows[1]["labels"].pop()
    write_lines(folder / "web" / "queries.jsonl", rows)


def make_table(folder):
    (folder / "queries.csv").write_text(
        'query,tools,split\n"tide, please",tide;berth,train\nberth,berth,test\n'
    )
    (folder / "tools.csv").write_text(
        "name,description\ntide,List tides.\nberth,Find berths.\n"
    )


MAKE = {
    "function-calling": make_function_calling,
    "toolret": make_toolret,
    "table": make_table,
    "published": make_published,
    "jsonl": make_jsonl,
    "toolbank": make_toolbank,
    "toolbench": make_toolbench,
    "toolbench-conversations": make_conversations,
    "toollens": make_toollens,
}


def config(kind, folder, **more):
    if kind == "toolbank":
        more.setdefault("tools", folder / "tools.json")
    return DATASETS.load(kind).config(type=kind, path=folder, **more)
