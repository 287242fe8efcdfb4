import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import check_expected, corpus_files
from tests.sources.cases import read_cases
from toolbank.sources.python.docstring import plain, plain_line, read_docstring
from toolbank.sources.typetext import parameters_schema


def read(text):
    found = read_docstring(text)
    tool = found.as_tool("f", "function", found.signature, found.parameters)
    return tool.model_dump(exclude_defaults=True, exclude={"name"})


@pytest.mark.parametrize("file", corpus_files("docstrings"), ids=lambda file: file.stem)
def test_a_docstring_is_read_as_expected(file, update_corpus):
    found = {title: read(text) for title, text in read_cases(file).items()}
    expected = file.with_name(f"{file.stem}.tools.json")
    check_expected(expected, found, update=update_corpus)


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *("Parameters\n----------\n", "Returns\n-------\n", "See Also\n--------\n"),
            *("Notes\n-----\n", "Args:\n", "Returns:\n", "    x (int): A number.\n"),
            *(":param x: A number.\n", "x : {'a', 'b'}, optional\n    Which.\n"),
            *("f(x, [y, z=1])\n", ".. deprecated:: 1.0\n    Gone.\n", ".. note::\n"),
            *("name : text, other\n", "::\n", "\n", "`", "``", "*", ":func:`~a.b`"),
            *("Some words.", "\t", "===\n"),
        ]
    )
    | st.text(max_size=12)
).map("".join)


@given(st.none() | FRAGMENTS | st.text())
def test_no_docstring_is_refused(text):
    documented = read_docstring(text)
    assert "\n" not in documented.summary
    parameters_schema(documented.parameters)
    json.dumps([item.model_dump() for item in documented.see_also])


@given(FRAGMENTS | st.text())
def test_no_markup_is_refused(text):
    plain(text)
    assert "\n" not in plain_line(text)
