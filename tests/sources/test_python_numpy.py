import json

import jsonschema
import numpy
import pytest

from tests.shared import shared
from toolbank.sources.python.package import read_package
from toolbank.sources.python.settings import PythonSource


@pytest.fixture(scope="module")
def tools():
    source = PythonSource(package="numpy")
    return {tool.name: tool for tool in read_package(source).tools}


def test_every_published_name_is_a_tool_or_an_alias(tools):
    published = shared("data/toolbank-names/numpy.txt").read_text().split()
    known = {name for tool in tools.values() for name in (tool.name, *tool.aliases)}
    exists = [name for name in published if _exists(name)]
    assert len(exists) >= 500
    assert [name for name in exists if name not in known] == []
    assert 520 <= len(tools) <= 545


def test_kinds_aliases_and_the_signature_of_a_ufunc(tools):
    assert tools["numpy.arccos"].aliases == ("numpy.acos",)
    assert tools["numpy.nditer"].kind == "class"
    assert tools["numpy.s_"].kind == "object"
    assert tools["numpy.lib.stride_tricks"].kind == "module"
    assert not {"numpy.float64", "numpy.pi"} & tools.keys()
    add = tools["numpy.add"]
    assert (add.kind, add.aliases) == ("function", ("numpy.strings.add",))
    assert add.signature.startswith("numpy.add(x1, x2, /, out=None, *, where=True")
    assert list(add.parameters["properties"])[:3] == ["x1", "x2", "out"]
    assert add.parameters["required"] == ["x1", "x2"]


def test_all_schemas_are_valid_and_summaries_are_clean(tools):
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.parameters)
        json.dumps(tool.parameters, allow_nan=False)
        assert tool.summary, tool.name
        assert "``" not in tool.summary + tool.description, tool.name
        assert ":func:" not in tool.summary + tool.description, tool.name
        assert "\n" not in tool.summary, tool.name
        assert " at 0x" not in tool.signature, tool.name


def _exists(name):
    value = numpy
    for part in name.split(".")[1:]:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True
