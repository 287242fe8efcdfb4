"""Labelled files and files of requests: what is read, and how broken lines are told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.datasets.jsonl import (
    JsonlConfig,
    read_jsonl,
    read_labelled,
    read_requests,
)
from toolbank.system.errors import InputError

_TEXT = st.text().filter(str.strip)


def write(tmp_path, *lines):
    path = tmp_path / "natural.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_lines_become_queries_named_by_the_stem(tmp_path):
    path = write(
        tmp_path,
        '{"id": "a", "query": "sum it", "tools": ["np.sum"], "domain": "x"}',
        "",
        '{"query": "what is love?", "tools": []}',
        '{"query": "mean", "tools": ["np.mean", "np.std"]}',
        '{"query": "", "tools": []}',
    )
    labelled = read_labelled(path)
    assert labelled.name == "natural"
    assert [(q.id, q.query, q.tools) for q in labelled.queries] == [
        ("a", "sum it", ("np.sum",)),
        ("4", "mean", ("np.mean", "np.std")),
    ]
    assert [query.query for query in labelled.missing] == ["what is love?"]
    assert labelled.refusals == 1


@pytest.mark.parametrize(("event", "kept"), [("search", 0), ("call", 0), ("none", 1)])
def test_only_users_say_in_a_log_that_no_tool_fits(tmp_path, event, kept):
    row = {"query": "love?", "tools": [], "event": event}
    lines = [json.dumps(row), '{"query": "sum", "tools": ["np.sum"]}']
    assert len(read_labelled(write(tmp_path, *lines)).missing) == kept
    write(tmp_path, *lines).rename(tmp_path / "queries.jsonl")
    (tmp_path / "tools.jsonl").write_text('{"name": "np.sum"}\n')
    dataset = read_jsonl(JsonlConfig(type="jsonl", path=tmp_path))
    assert len(dataset.missing) == kept and len(dataset.queries) == 1


def test_a_request_that_has_tools_in_another_line_is_not_without_tools(tmp_path):
    rows = ({"query": "sum", "tools": tools} for tools in ([], ["np.sum"]))
    labelled = read_labelled(write(tmp_path, *map(json.dumps, rows)))
    assert (len(labelled.queries), labelled.missing, labelled.refusals) == (1, (), 1)


def test_rows_of_a_table_become_queries(tmp_path):
    path = tmp_path / "natural.csv"
    path.write_text(
        "id;query;tools\na;sum it;np.sum\n;mean;np.mean; np.std\n;love?;[]\n;who?;\n"
    )
    path.write_text(path.read_text().replace("np.mean; np.std", '"np.mean; np.std"'))
    labelled = read_labelled(path)
    assert [(q.id, q.query, q.tools) for q in labelled.queries] == [
        ("a", "sum it", ("np.sum",)),
        ("2", "mean", ("np.mean", "np.std")),
    ]
    assert [query.query for query in labelled.missing] == ["love?"]
    assert labelled.refusals == 1
    path.write_text("query,tools\nfine,a\n ,a\n")
    with pytest.raises(InputError, match='line 3: "query" is blank'):
        read_labelled(path)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{query: 1}", "not JSON"),
        ('["x"]', "a list, not a JSON object"),
        ('{"tools": ["a"]}', 'no "query"'),
        ('{"query": 3, "tools": ["a"]}', '"query" is a number, not a string'),
        ('{"query": " ", "tools": ["a"]}', '"query" is blank'),
        ('{"query": "x"}', 'no "tools"'),
        ('{"query": "x", "tools": "a"}', '"tools" is a string, not a list'),
        ('{"query": "x", "tools": [null]}', '"tools" holds null'),
        ('{"id": {}, "query": "x", "tools": ["a"]}', '"id" is an object'),
        ("[" * 100_000, "not JSON"),
        (r'{"query": "a \ud800 b", "tools": ["a"]}', r"\ud800 is half a character"),
        (r'{"query": "x", "tools": ["\udfff"]}', r"\udfff is half a character"),
        (r'{"id": "\uD800", "query": "x", "tools": []}', r"\ud800 is half a character"),
    ],
)
def test_a_broken_line_is_named_with_what_is_wrong(tmp_path, line, told):
    path = write(tmp_path, '{"query": "fine", "tools": ["a"]}', line)
    with pytest.raises(InputError) as caught:
        read_labelled(path)
    assert f"line 2: {told}" in str(caught.value)


def test_all_broken_lines_are_counted_and_the_first_five_named(tmp_path):
    path = write(tmp_path, *["nonsense"] * 8)
    with pytest.raises(InputError) as caught:
        read_labelled(path)
    message = str(caught.value)
    assert "line 5:" in message
    assert "line 6:" not in message
    assert "and 3 more" in message


def test_missing_empty_and_foreign_files_are_told(tmp_path):
    with pytest.raises(InputError, match=r"gone\.jsonl: cannot be read"):
        read_labelled(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match="no lines"):
        read_labelled(write(tmp_path, ""))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_labelled(tmp_path / "binary.jsonl")


def test_requests_have_an_id_or_take_the_number_of_their_line(tmp_path):
    path = write(tmp_path, '{"id": 7, "query": "one"}', r'{"query": "\ud83d\ude00"}')
    # A whole surrogate pair is a character.
    assert read_requests(path) == [("7", "one"), ("2", "\U0001f600")]


def test_a_request_that_nothing_can_search_for_is_a_broken_line(tmp_path):
    path = write(tmp_path, r'{"query": "\ud800"}', '{"id": "a", "query": "\\t"}')
    with pytest.raises(InputError) as caught:
        read_requests(path)
    assert r"line 1: \ud800 is half a character" in str(caught.value)
    assert 'line 2: "query" is blank' in str(caught.value)


@given(st.lists(st.tuples(_TEXT, st.lists(st.text(), min_size=1)), min_size=1))
def test_any_text_survives(tmp_path_factory, rows):
    lines = [json.dumps({"query": q, "tools": t}, ensure_ascii=False) for q, t in rows]
    path = tmp_path_factory.mktemp("any") / "rows.jsonl"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    try:
        read = read_labelled(path).queries
    except InputError as error:
        assert "not UTF-8" in str(error)
        return
    assert [(q.query, list(q.tools)) for q in read] == rows
