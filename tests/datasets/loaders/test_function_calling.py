"""Rows that hold their own functions, tables, and ToolRet: what is read, and what is counted."""

import json

import polars as pl
import pytest

from tests.datasets.loaders.samples import config
from tests.shared import shared
from tests.world import write_lines
from toolbank.datasets import DATASETS, find_format
from toolbank.datasets.function_calling import find_calls
from toolbank.system.errors import InputError

FUNCTIONS = [
    {"name": "tide", "description": "List tides."},
    {"name": "berth", "description": "Find berths."},
]
PORT = {"type": "object", "properties": {"port": {"type": "string"}}}
TIDE = {"name": "tide", "description": "List tides.", "parameters": PORT}
BERTH = {"name": "berth", "description": "Find berths.", "parameters": PORT}


def read(path, kind="function-calling", **more):
    return DATASETS.load(kind).read(config(kind, path, **more))


def labels(dataset):
    return {query.query: query.tools for query in dataset.queries}


def row_of(form, query, calls, functions=(TIDE, BERTH)):
    texts = [f'{name}(port="a, [b](c)", n=[1, (2)])' for name in calls]
    made = [{"name": name, "arguments": "{}"} for name in calls]
    api = {"required_parameters": [], "tool_name": "Sea"}
    asked = {"from": "human", "value": query}
    tags = [
        f"<tool_call>\n{{'arguments': {{}}, 'name': '{n}'}}\n</tool_call>"
        for n in calls
    ]
    return {
        "bfcl": {"id": "x", "question": [[{"role": "user", "content": query}]]}
        | {"function": list(functions), "ground_truth": [{name: {}} for name in calls]},
        "bfcl of calls as text": {"id": "x", "question": query, "ground_truth": texts}
        | {"function": json.dumps(functions)},
        "xlam": {"query": query, "tools": list(functions), "answers": made},
        "toolace": {"system": f"You may call: {json.dumps(functions)}. Call them."}
        | {
            "conversations": [
                {"from": "user", "value": query},
                {"from": "assistant", "value": f"[{', '.join(texts)}]"},
                {"from": "tool", "value": "[]"},
                {"from": "assistant", "value": "It is at noon [see (1)]."},
                {"from": "user", "value": "And berths?"},
                {"from": "assistant", "value": "[berth(port='b')]"},
            ]
        },
        "chat": {"tools": [{"type": "function", "function": one} for one in functions]}
        | {
            "messages": [
                {"role": "system", "content": "Help."},
                {"role": "user", "content": [{"type": "text", "text": query}]},
                {
                    "role": "assistant",
                    "tool_calls": [{"function": one} for one in made],
                },
                {"role": "user", "content": "Thanks"},
            ]
        },
        "chat of anthropic": {"tools": list(functions)}
        | {
            "messages": [
                {"role": "user", "content": query},
                {
                    "role": "assistant",
                    "content": [{"type": "text", "text": "I look."}]
                    + [{"type": "tool_use", "input": {}, "name": n} for n in calls[:1]],
                },
                {"role": "user", "content": [{"type": "tool_result", "content": "5"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "name": n} for n in calls[1:]],
                },
                {"role": "user", "content": [{"type": "text", "text": "And berths?"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "name": "berth"}],
                },
            ]
        },
        "chat of bedrock": {"tools": [{"toolSpec": one} for one in functions]}
        | {
            "messages": [
                {"role": "user", "content": [{"text": query}]},
                {
                    "role": "assistant",
                    "content": [{"toolUse": {"name": n, "input": {}}} for n in calls],
                },
            ]
        },
        "chat of vercel": {"tools": list(functions)}
        | {
            "messages": [
                {"role": "user", "content": query},
                {
                    "role": "assistant",
                    "content": [{"type": "tool-call", "toolName": n} for n in calls],
                },
            ]
        },
        "xlam as python writes it": {"query": query, "tools": str(list(functions))}
        | {"answers": str(made)},
        "chat of functions": {"functions": list(functions)}
        | {
            "messages": [{"role": "user", "content": query}]
            + [{"role": "assistant", "function_call": one} for one in made]
        },
        "sharegpt": {"tools": json.dumps(functions)}
        | {
            "conversations": [asked]
            + [{"from": "function_call", "value": json.dumps(one)} for one in made]
        },
        "hermes": {
            "conversations": [
                {
                    "from": "system",
                    "value": f"<tools> {json.dumps(functions)} </tools>",
                },
                asked,
                {"from": "gpt", "value": "\n".join(tags)},
            ]
        },
        "names": {"instruction": query, "functions": list(functions), "calls": calls},
        "toolbench": {
            "query": query,
            "relevant APIs": [["Sea", name] for name in calls],
        }
        | {"api_list": [{**api, "api_name": one["name"]} for one in functions]},
    }[form]


FORMS = ["bfcl", "bfcl of calls as text", "xlam", "toolace", "chat", "toolbench"]
FORMS += ["chat of functions", "sharegpt", "hermes", "names"]
FORMS += ["chat of anthropic", "chat of bedrock", "chat of vercel"]
FORMS += ["xlam as python writes it"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_request_its_tools_and_all_functions(form, tmp_path):
    prefix = "Sea::" if form == "toolbench" else ""
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([row_of(form, "When is high water?", ["tide", "tide"])]))
    dataset = read(file)
    assert labels(dataset) == {"When is high water?": (f"{prefix}tide",)}
    assert [tool.name for tool in dataset.tools] == [f"{prefix}tide", f"{prefix}berth"]
    assert find_format(tmp_path).type == find_format(file).type == "function-calling"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_rows_of_a_table_hold_their_functions_as_json(separator, tmp_path):
    rows = [row_of("xlam", text, ["berth"]) for text in ("where?", "where; and when?")]
    cells = [
        {key: one if key == "query" else json.dumps(one) for key, one in row.items()}
        for row in rows
    ]
    pl.DataFrame(cells).write_csv(tmp_path / "test.csv", separator=separator)
    found = find_format(tmp_path / "test.csv")
    dataset = DATASETS.load(found.type).read(found)
    assert labels(dataset) == {row["query"]: ("berth",) for row in rows}
    assert {query.split for query in dataset.queries} == {"test"}


def test_requests_without_answers_are_no_dataset(tmp_path):
    (tmp_path / "rows.csv").write_text("query,tools\nwhen?,tide\n")
    with pytest.raises(InputError, match=r"dataset\.tools(.|\n)*no row is in a form"):
        find_format(tmp_path / "rows.csv")


def test_answers_of_bfcl_are_in_a_file_of_their_own(tmp_path):
    row = row_of("bfcl", "when?", [])
    del row["ground_truth"]
    write_lines(tmp_path / "BFCL_v4_simple.json", [row, {**row, "id": "y"}])
    answers = [
        {"id": "x", "ground_truth": [{"berth": {}}, {"tide": {}}]},
        {"id": "z", "ground_truth": [{"tide": {}}]},
    ]
    (tmp_path / "possible_answer").mkdir()
    write_lines(tmp_path / "possible_answer" / "BFCL_v4_simple.json", answers)
    dataset = read(tmp_path)
    assert labels(dataset) == {"when?": ("berth", "tide")}
    assert dataset.left_out.counts == {"query: needs no tool": 1}


def test_a_file_of_several_requests_does_not_spoil_its_folder(tmp_path):
    turns = [[{"role": "user", "content": text}] for text in ("dock", "and leave")]
    several = {"id": "m", "question": turns, "involved_classes": ["Ship"]}
    answer = {"id": "m", "ground_truth": [["dock(port='a')"], ["leave()", "wave()"]]}
    (tmp_path / "possible_answer").mkdir()
    for folder, row in ((tmp_path, several), (tmp_path / "possible_answer", answer)):
        write_lines(folder / "a_turns.json", [row, {**row, "id": "n"}])
    with pytest.raises(InputError, match=r"several requests, in a_turns.json \(2\)"):
        read(tmp_path)
    row = row_of("bfcl", "when?", ["tide"])
    write_lines(tmp_path / "b_single.json", [row, {**row, "ground_truth": [[3]]}])
    dataset = read(tmp_path)
    assert labels(dataset) == {"when?": ("tide",)}
    assert sorted(dataset.left_out.counts.values()) == [1, 2]
    assert any("a_turns.json" in reason for reason in dataset.left_out.counts)


def test_a_name_of_two_functions_is_two_tools(tmp_path):
    other = {**TIDE, "description": "Tell how strong the tide is."}
    rows = [
        row_of("xlam", "one", ["tide"]),
        row_of("xlam", "two", ["tide"], [other]),
        row_of("xlam", "three", ["tide"]),
    ]
    pl.DataFrame(
        [{key: json.dumps(value) for key, value in row.items()} for row in rows]
    ).with_columns(pl.col("query").str.strip_chars('"')).write_parquet(
        tmp_path / "train.parquet"
    )
    dataset = read(tmp_path)
    assert labels(dataset) == {
        "one": ("tide",),
        "two": ("tide #2",),
        "three": ("tide",),
    }
    summaries = {tool.name: tool.summary for tool in dataset.tools}
    assert summaries["tide #2"] == other["description"]
    assert {query.split for query in dataset.queries} == {"train"}


def test_a_row_that_cannot_be_read_is_counted_with_its_place(tmp_path):
    several = row_of("bfcl", "a", ["tide"])
    several["question"] *= 2
    rows = [
        row_of("xlam", "good", ["berth"]),
        row_of("xlam", "calls another", ["wind"]),
        {"text": "of another form"},
        several,
        {**row_of("xlam", "broken", []), "answers": "[{]"},
    ]
    write_lines(tmp_path / "rows.jsonl", rows)
    dataset = read(tmp_path)
    assert list(labels(dataset)) == ["good"]
    found = dataset.left_out.describe()
    places = [place for one in found.values() for place in one["examples"]]
    assert sorted(place.rpartition("line ")[2][0] for place in places) == list("2345")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[a()]", ["a"]),
        ('[Get Tide(x="b(", y=[f(1)]), other.name(z={"k": (1, 2)})]', 2),
        ("[]", []),
        ("No function fits (sorry).", []),
        ('[broken(x="', []),
    ],
)
def test_calls_are_found_in_a_text(text, names):
    found = find_calls(text)
    assert found == names if isinstance(names, list) else len(found) == names


def test_types_of_other_languages_are_those_of_json_schema(tmp_path):
    types = {
        "a": "List[int]",
        "b": "str, optional",
        "c": "Optional[float]",
        "d": "dict",
    }
    parameters = {name: {"type": kind} for name, kind in types.items()}
    function = {"name": "mix", "description": "Mix.", "parameters": parameters}
    write_lines(
        tmp_path / "rows.jsonl", [row_of("xlam", "mix it", ["mix"], [function])]
    )
    [tool] = read(tmp_path).tools
    found = {name: one["type"] for name, one in tool.parameters["properties"].items()}
    assert found == {"a": "array", "b": "string", "c": "number", "d": "object"}
    assert tool.parameters["required"] == ["a", "d"]


def test_toolret_names_tools_by_their_documentation(tmp_path):
    documents = [
        {"id": "t1", "documentation": json.dumps(TIDE)},
        {"id": "t2", "documentation": json.dumps({**TIDE, "description": "Other."})},
        {"id": "t3", "documentation": "A plain text about moorings."},
    ]
    pl.DataFrame(documents).write_parquet(tmp_path / "tools-00000-of-00001.parquet")
    wanted = [{"id": "t3", "relevance": 1}, {"id": "t2", "relevance": 2}]
    row = {"id": "q", "query": "moor", "labels": json.dumps(wanted)}
    (tmp_path / "web").mkdir()
    write_lines(tmp_path / "web" / "queries.jsonl", [row])
    assert labels(read(tmp_path, "toolret")) == {"moor": ("t3", "tide #t2")}


def test_toolret_without_tools_has_the_documents_of_its_labels(tmp_path):
    one = {"id": "t1", "relevance": 0, "doc": {"name": "tide", "description": "Tides."}}
    labelled = [one, {"id": "t2", "relevance": 1.0, "doc": json.dumps(BERTH)}]
    row = {"id": "q", "query": "moor", "labels": labelled, "category": "web"}
    write_lines(tmp_path / "queries-test.jsonl", [row])
    assert find_format(tmp_path).type == "toolret"
    dataset = read(tmp_path, "toolret")
    assert labels(dataset) == {"moor": ("berth",)}
    assert [tool.name for tool in dataset.tools] == ["tide", "berth"]
    assert dataset.queries[0].split == "test"


def test_tables_may_be_parquet_in_parts(tmp_path):
    pl.DataFrame(FUNCTIONS).write_parquet(tmp_path / "tools.parquet")
    for number, tools in enumerate((["tide"], ["berth", "tide"])):
        rows = pl.DataFrame({"query": [f"{number}?"], "tools": [tools]})
        rows.write_parquet(tmp_path / f"queries-{number}.parquet")
    assert find_format(tmp_path).type == "table"
    assert labels(read(tmp_path, "table")) == {
        "0?": ("tide",),
        "1?": ("berth", "tide"),
    }


def test_a_table_names_tools_in_a_cell(tmp_path):
    table = tmp_path / "requests.tsv"
    table.write_text('query\ttools\n"High\twater?"\ttide; berth\n')
    catalogue = tmp_path / "functions.json"
    catalogue.write_text(json.dumps({"tools": FUNCTIONS}))
    dataset = read(table, "table", tools=catalogue)
    assert labels(dataset) == {"High\twater?": ("tide", "berth")}


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("['tide']", ("tide",)),
        ("['tide' 'berth']", ("tide", "berth")),
        ("[\"tide\", 'berth',]", ("tide", "berth")),
        ("['tide'\n 'berth']", ("tide", "berth")),
        (r"['captain\'s log']", ("captain's log",)),
        ("[odd]; tide", ("[odd]", "tide")),
    ],
)
def test_a_cell_has_a_list_as_pandas_writes_it(tmp_path, cell, names):
    pl.DataFrame({"query": ["when?"], "tools": [cell]}).write_csv(
        tmp_path / "queries.csv"
    )
    listed = ("tide", "berth", "captain's log", "[odd]")
    table = pl.DataFrame({"name": listed, "description": ["It."] * len(listed)})
    table.write_csv(tmp_path / "tools.csv")
    assert labels(read(tmp_path, "table")) == {"when?": names}


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("request,tools\na,tide\n", 'line 2: no "query"'),
        ("query,tools\na,tide,more\n", "line 2"),
    ],
)
def test_a_table_without_its_columns_is_refused(content, place, tmp_path):
    (tmp_path / "queries.csv").write_text(content)
    (tmp_path / "tools.csv").write_text("name,description\ntide,Tides.\n")
    with pytest.raises(InputError, match=place):
        read(tmp_path, "table")


@pytest.mark.parametrize(
    ("name", "queries", "tools"),
    [
        ("bfcl", 3, 5),
        ("toolbench-instructions.json", 2, 4),
        ("xlam.json", 2, 2),
        ("toolace.json", 1, 2),
    ],
)
def test_published_rows(name, queries, tools):
    dataset = read(shared("cases") / "datasets" / name)
    assert (len(dataset.queries), len(dataset.tools)) == (queries, tools)
    assert not dataset.left_out.counts
