import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_collected, corpus_files
from toolbank.bank.function_reader import (
    find_functions,
    find_unread_parameters,
    read_entry,
)
from toolbank.sources import SOURCES
from toolbank.sources.collect import recognise
from toolbank.sources.functions import FunctionsSource
from toolbank.system.errors import InputError


def read(path):
    kind = SOURCES.find("functions", "")
    return kind.read(FunctionsSource(path=path), path.parent)


@pytest.mark.parametrize("file", corpus_files("functions"), ids=lambda file: file.name)
def test_a_list_is_read_as_expected(file, update_corpus):
    check_collected(file, read(file), file, update=update_corpus)


def test_parquet_is_read_as_a_table_of_texts(tmp_path):
    path = tmp_path / "tools.parquet"
    csv = CORPUS / "functions" / "table.csv"
    pl.read_csv(csv, infer_schema=False).write_parquet(path)
    assert [t.name for t in read(path).tools] == [t.name for t in read(csv).tools]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("list.csv", "name,description\r\nrain,é".encode("utf-16"), "UTF-8"),
        ("list.csv", "name,description\r\nrain,é".encode("latin-1"), "UTF-8"),
        ("tools.csv", b"tool,about\na,b\n", "column description and name"),
        *(
            ("tools.json", text, "")
            for text in (b"[]", b"{}", b"[1, 2]", b"words", b"")
        ),
        ("tools.json", b'{"openapi": "3.1.0", "paths": {}}', ""),
    ],
)
def test_what_lists_no_function_is_refused(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{path}: .*{said}"):
        read(path)


@pytest.mark.parametrize("file", corpus_files("others"), ids=lambda file: file.name)
def test_another_kind_of_file_is_refused_by_its_name(file):
    kind = json.loads((CORPUS / "others" / "kinds.tools.json").read_text())[file.name]
    with pytest.raises(InputError, match=rf"{file}: .*{kind}.*\. [A-Z].*\."):
        read(recognise(str(file)).path)


def test_other_kinds_in_a_list_are_left_out(tmp_path):
    path = tmp_path / "mixed.json"
    rain = {"name": "rain", "description": "Rain.", "version": "1", "license": "MIT"}
    package = {**rain, "name": "sun"}
    path.write_text(json.dumps([{**rain, "parameters": {}}, package]))
    found = read(path)
    assert [tool.name for tool in found.tools] == ["rain"]
    assert "/1" in found.problems[0] and "npm" in found.problems[0]


words = ["name", "description", "parameters", "function", "tools", "type"]
words += ["args", "inputs", "result", "toolSpec", "required", "json"]
keys = st.sampled_from(words) | st.text(max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=15,
)


@settings(max_examples=300)
@given(values)
def test_any_json_is_read_to_tools_or_refused(content):
    for pointer, entry in find_functions(content):
        assert pointer.startswith("/") or pointer == ""
        try:
            tool = read_entry(entry)
        except ValueError as error:
            assert str(error)
        else:
            assert tool.name.strip()
            assert isinstance(tool.parameters, dict)
            find_unread_parameters(entry)
