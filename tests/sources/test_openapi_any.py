"""Whatever stands in a description: sound tools come of it, or a message."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sources.openapi_specs import assert_sound
from toolbank.sources.kind import ToolCollection
from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.system.errors import InputError

NAMES = st.sampled_from(
    ["a", "b", "id", "$ref", "a/b", "~", "%", "200", "2XX", "/x/{id}", ""]
)
TARGETS = st.builds(
    "#/{}/{}/{}".format,
    st.sampled_from(["components", "definitions", "paths"]),
    st.sampled_from(["schemas", "parameters", "responses", "a", "~1x~1{id}"]),
    st.sampled_from(["a", "b", "id", "a~1b", "%7E0", "%25", "0", "schema", "get"]),
)
WORDS = st.one_of(
    NAMES,
    TARGETS,
    st.sampled_from(
        ["string", "object", "array", "path", "query", "body", "apiKey", "é\x00"]
    ),
    st.sampled_from(
        ["#", "#/", "#a", "other.json", "http://[", "file:///etc/passwd", "../.."]
    ),
)
KEYS = NAMES | st.sampled_from(
    [
        *("openapi", "swagger", "paths", "components", "definitions", "schemas", "get"),
        *("post", "parameters", "requestBody", "responses", "content", "schema"),
        *("name", "application/json", "multipart/form-data", "in", "required"),
        *("properties", "type", "items", "allOf", "anyOf", "enum", "default"),
        *("example", "nullable", "servers", "url", "variables", "security", "tags"),
        *("summary", "operationId", "$id", "$anchor", "$defs", "additionalProperties"),
        *("description", "minimum", "exclusiveMinimum", "maxLength", "pattern"),
        *("securitySchemes", "info", "host"),
    ]
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=False), WORDS
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.builds(lambda target: {"$ref": target}, TARGETS)
    ),
    max_leaves=12,
)
OFTEN = st.sampled_from(
    [
        *("#/components/schemas/a", "#/components/schemas/b"),
        *("#/components/schemas/a~1b", "#/components/schemas/a/properties/b"),
        *("#/definitions/a", "#/components/responses/a"),
    ]
)
REFERENCES = st.builds(lambda target: {"$ref": target}, OFTEN | OFTEN | TARGETS)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    REFERENCES
    | REFERENCES
    | ANYTHING
    | st.sampled_from([{"type": "string"}, {"type": "object"}]),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(NAMES, inner, max_size=3),
            },
            optional={
                "required": st.lists(NAMES, max_size=2),
                "additionalProperties": inner,
            },
        ),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.dictionaries(
            st.sampled_from(["allOf", "anyOf", "oneOf"]),
            st.lists(inner, max_size=3),
            min_size=1,
        ),
        st.fixed_dictionaries(
            {"not": inner}, optional={"$ref": TARGETS, "nullable": st.just(True)}
        ),
    ),
    max_leaves=6,
)
PARAMETERS = st.lists(
    st.one_of(
        REFERENCES,
        st.fixed_dictionaries(
            {
                "name": NAMES,
                "in": st.sampled_from(
                    ["path", "query", "header", "cookie", "body", "formData"]
                ),
            },
            optional={"schema": SCHEMAS, "required": st.booleans(), "type": WORDS},
        ),
        ANYTHING,
    ),
    max_size=4,
)
JSON_CONTENTS = st.fixed_dictionaries({"schema": SCHEMAS}).map(
    lambda media: {**media, "content": {"application/json": media}, "required": True}
)
CONTENTS = (
    JSON_CONTENTS
    | JSON_CONTENTS
    | st.fixed_dictionaries(
        {},
        optional={
            "content": st.dictionaries(
                st.sampled_from(
                    ["application/json", "multipart/form-data", "*/*", "text/plain", ""]
                ),
                st.one_of(st.fixed_dictionaries({"schema": SCHEMAS}), ANYTHING),
                max_size=2,
            ),
            "required": st.booleans(),
            "schema": SCHEMAS,
        },
    )
)
RESPONSES = st.dictionaries(
    st.sampled_from(["200", "201", "2XX", "default", "404"]),
    CONTENTS | REFERENCES,
    max_size=2,
)
OPERATIONS = st.fixed_dictionaries(
    {"requestBody": CONTENTS | REFERENCES, "responses": RESPONSES},
    optional={
        "parameters": PARAMETERS,
        "operationId": WORDS | ANYTHING,
        "summary": ANYTHING,
        "description": ANYTHING,
        "deprecated": VALUES,
        "callbacks": st.dictionaries(NAMES, ANYTHING, max_size=2) | ANYTHING,
        "security": ANYTHING,
        "servers": ANYTHING,
        "tags": ANYTHING,
    },
)
PATHS = st.dictionaries(
    st.sampled_from(["/x/{id}", "/x", "x", "/a-b", "/a/b"]),
    st.fixed_dictionaries(
        {"get": OPERATIONS},
        optional={"post": OPERATIONS | ANYTHING, "parameters": PARAMETERS},
    )
    | REFERENCES,
    min_size=1,
    max_size=2,
)
NAMED_SCHEMAS = st.fixed_dictionaries({"a": SCHEMAS, "b": SCHEMAS, "a/b": SCHEMAS})
COMPONENTS = st.fixed_dictionaries(
    {"schemas": NAMED_SCHEMAS | ANYTHING},
    optional={
        "parameters": st.dictionaries(NAMES, ANYTHING, max_size=2),
        "responses": st.dictionaries(NAMES, CONTENTS, max_size=2),
        "securitySchemes": ANYTHING,
    },
)
DESCRIPTIONS = st.fixed_dictionaries(
    {"paths": PATHS, "components": COMPONENTS},
    optional={
        "definitions": NAMED_SCHEMAS | ANYTHING,
        "webhooks": PATHS | ANYTHING,
        "x-ms-paths": PATHS | ANYTHING,
        "servers": ANYTHING,
        "security": ANYTHING,
        "info": ANYTHING,
    },
)
VERSIONS = st.sampled_from(
    [{"openapi": v} for v in ("3.0.3", "3.1.0", "3.2.0")] + [{"swagger": "2.0"}]
)
FUZZ = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def read(description: Any) -> ToolCollection | None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "any.json"
        file.write_text(json.dumps(description), "utf-8")
        try:
            return KIND.read(OpenApiSource(spec=str(file)), Path(folder))
        except InputError as error:
            foreseen = "can't be read (" not in str(error)
            assert foreseen, error
            return None


@FUZZ
@given(version=VERSIONS, description=DESCRIPTIONS)
def test_a_description_gives_sound_tools_and_every_operation_is_accounted_for(
    version: dict[str, str], description: dict[str, Any]
) -> None:
    collected = read(version | description)
    if collected is None:
        return
    for tool in collected.tools:
        assert_sound(tool)
    names = [tool.name for tool in collected.tools]
    assert len(set(names)) == len(names)
    own = [item for item in description["paths"].values() if "$ref" not in item]
    listed = sum(method in item for item in own for method in ("get", "post"))
    left_out = sum(
        count
        for reason, count in collected.info["left_out"].items()
        if "which the API calls" not in reason
    )
    assert listed <= len(names) + left_out
    json.dumps([collected.info, collected.problems, collected.notes], allow_nan=False)


@FUZZ
@given(content=ANYTHING)
def test_any_json_is_read_or_refused(content: Any) -> None:
    read(content)
