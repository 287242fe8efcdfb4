import json
import time

import pytest

from tests.sources.openapi_specs import (
    described,
    json_body,
    json_response,
    operation,
    read,
)
from toolbank.sources.openapi import KIND, reader
from toolbank.sources.openapi import schemas as bounds
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.system.errors import InputError


def refer(name):
    return {"$ref": f"#/components/schemas/{name}"}


def posts(bodies, **schemas):
    paths = {
        f"/p{n}": {"post": operation(requestBody=json_body(b))}
        for n, b in enumerate(bodies)
    }
    return described(paths, components={"schemas": schemas})


def test_tools_share_the_objects_of_what_they_share(tmp_path):
    body = {"properties": {"tree": refer("Tree")}}
    tree = {"properties": {"value": refer("Value"), "children": refer("Tree")}}
    one, other = read(tmp_path, posts([body, body], Tree=tree, Value={})).tools
    for name in ("Tree", "Value"):
        assert one.parameters["$defs"][name] is other.parameters["$defs"][name]


def test_an_output_that_refers_to_all_there_is_has_the_nearest(tmp_path):
    schemas = {
        f"S{number}": {
            "title": f"The {number}th",
            "description": "word " * 2_000,
            "properties": {"next": refer(f"S{number + 1}")},
        }
        for number in range(20)
    }
    schemas["S20"] = {"type": "string"}
    said = operation(
        requestBody=json_body({"type": "array", "items": refer("S0")}),
        responses=json_response(refer("S0")),
    )
    description = described({"/pets": {"post": said}}, components={"schemas": schemas})
    collected = read(tmp_path, description)
    (tool,) = collected.tools
    assert len(tool.parameters["$defs"]) == 21
    assert tool.output_schema is not None
    near = tool.output_schema["$defs"]
    assert [*near] == sorted(f"S{number}" for number in range(1, 11))
    assert near["S9"]["properties"] == {"next": {"$ref": "#/$defs/S10"}}
    assert near["S10"] == {"title": "The 10th"}
    assert "over 100,000 characters" in collected.notes[0]


def test_the_sum_of_references_is_bounded_and_the_nearest_stay(tmp_path, monkeypatch):
    ring = {
        f"S{number}": {"properties": {"next": refer(f"S{after}")}}
        for number, after in enumerate([*range(1, 40), 0])
    }
    bodies = [{"properties": {"a": refer(f"S{number}")}} for number in range(40)]
    description = posts(bodies, **ring)
    collected = read(tmp_path, description)
    assert not collected.notes
    assert all(len(tool.parameters["$defs"]) == 40 for tool in collected.tools)
    monkeypatch.setattr(bounds, "_MOST", 20_000)
    collected = read(tmp_path, description)
    (note,) = collected.notes
    assert "over 500 characters" in note and "(40 times)" in note
    for tool in collected.tools:
        near = tool.parameters["$defs"]
        written = {name: one for name, one in near.items() if "properties" in one}
        assert tool.name.replace("post_p", "S") in written
        assert 5 < len(written) < 40 and len(json.dumps(written)) < 550
        assert [one for one in near.values() if one not in written.values()] == [
            {"title": name} for name in near if name not in written
        ]


def test_an_api_of_millions_of_parameters_is_refused(tmp_path, monkeypatch):
    description = posts([{"properties": {f"p{n}": {} for n in range(60)}}] * 2)
    assert len(read(tmp_path, description).tools) == 2
    monkeypatch.setattr(reader, "_MOST_PARAMETERS", 100)
    with pytest.raises(InputError, match=r"pets\.json: .* over 100 parameters"):
        read(tmp_path, description)


@pytest.mark.parametrize("keyword", ["properties", "items"])
@pytest.mark.parametrize(("depth", "is_read"), [(150, True), (400, False)])
def test_what_is_nested_too_deep_is_named(tmp_path, keyword, depth, is_read):
    deep = {}
    for _ in range(depth):
        deep = {keyword: {"a": deep} if keyword == "properties" else deep}
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(posts([{}, {"properties": {"a": deep}}])))
    collected = KIND.read(OpenApiSource(spec=str(file)), tmp_path)
    assert len(collected.tools) == 1 + is_read
    left_out = {} if is_read else {"operation that can't be read": 1}
    assert collected.info["left_out"] == left_out


def test_the_first_of_many_problems_are_shown(tmp_path):
    properties = {f"p{number}": {"$ref": f"#/nope/{number}"} for number in range(200)}
    collected = read(tmp_path, posts([{"properties": properties}]))
    assert len(collected.problems) == 51
    assert "150 more" in collected.problems[-1]


def test_parts_that_share_parts_are_read_once(tmp_path):
    schemas = {f"S{n}": {"allOf": [refer(f"S{n + 1}")] * 9} for n in range(12)}
    schemas["S12"] = {"properties": {"name": {"type": "string"}}}
    start = time.monotonic()
    (tool,) = read(tmp_path, posts([refer("S0")], **schemas)).tools
    assert time.monotonic() - start < 5
    assert tool.parameters["properties"] == {"name": {"type": "string"}}


def test_defaults_of_a_server_that_name_each_other_stay_short(tmp_path):
    variables = {f"v{n}": {"default": f"{{v{n + 1}}}" * 2} for n in range(40)}
    servers = [{"url": "https://example.com/{v0}/{other}", "variables": variables}]
    said = described({"/pets": {"get": operation()}}, servers=servers)
    (tool,) = read(tmp_path, said).tools
    assert tool.call.server == "https://example.com/{v1}{v1}/{other}"
