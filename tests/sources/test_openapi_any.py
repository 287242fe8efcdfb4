import json
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sources.openapi_specs import assert_sound
from toolbank.sources.openapi import KIND
from toolbank.sources.openapi.settings import OpenApiSource
from toolbank.system.errors import InputError


def pick(words):
    return st.sampled_from(words.split())


def fields(needed, **optional):
    return st.fixed_dictionaries(needed, optional=optional)


def named(names, values, least=0):
    return st.dictionaries(names, values, min_size=least, max_size=2)


NAMES = pick("a b id $ref a/b ~ % 200 2XX /x/{id}") | st.just("")
TARGETS = st.builds(
    "#/{}/{}/{}".format,
    pick("components definitions paths"),
    pick("schemas parameters responses a ~1x~1{id}"),
    pick("a b id a~1b %7E0 %25 0 schema get"),
)
ODD = pick("string object array path query body apiKey # #/ #a other.json http://[")
WORDS = NAMES | TARGETS | ODD | pick("file:///etc/passwd ../..") | st.just("é\x00")
KEYS = NAMES | pick(
    "openapi swagger paths components definitions schemas get post parameters requestBody "
    "responses content schema name application/json multipart/form-data in required properties "
    "type items allOf anyOf enum default example nullable servers url variables security tags "
    "summary operationId $id $anchor $defs additionalProperties description minimum "
    "exclusiveMinimum maxLength pattern securitySchemes info host"
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 3), st.floats(allow_nan=False), WORDS
)
ANYTHING = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.builds(lambda target: {"$ref": target}, TARGETS)
    ),
    max_leaves=12,
)
OFTEN = pick(
    "#/components/schemas/a #/components/schemas/b #/components/schemas/a~1b "
    "#/components/schemas/a/properties/b #/definitions/a #/components/responses/a"
)
REFERENCES = st.builds(lambda target: {"$ref": target}, OFTEN | OFTEN | TARGETS)
PLAIN = st.sampled_from([{"type": "string"}, {"type": "object"}])
SCHEMAS = st.recursive(
    REFERENCES | REFERENCES | ANYTHING | PLAIN,
    lambda inner: st.one_of(
        fields(
            {"type": st.just("object"), "properties": named(NAMES, inner)},
            required=st.lists(NAMES, max_size=2),
            additionalProperties=inner,
        ),
        fields({"type": st.just("array"), "items": inner}),
        named(pick("allOf anyOf oneOf"), st.lists(inner, max_size=3), least=1),
        st.fixed_dictionaries(
            {"not": inner}, optional={"$ref": TARGETS, "nullable": st.just(True)}
        ),
    ),
    max_leaves=6,
)
PARAMETER = fields(
    {"name": NAMES, "in": pick("path query header cookie body formData")},
    schema=SCHEMAS,
    required=st.booleans(),
    type=WORDS,
)
PARAMETERS = st.lists(REFERENCES | PARAMETER | ANYTHING, max_size=4)
JSON_CONTENTS = fields({"schema": SCHEMAS}).map(
    lambda media: {**media, "content": {"application/json": media}, "required": True}
)
MEDIA_TYPES = pick("application/json multipart/form-data */* text/plain") | st.just("")
CONTENTS = (
    JSON_CONTENTS
    | JSON_CONTENTS
    | fields(
        {},
        content=named(MEDIA_TYPES, fields({"schema": SCHEMAS}) | ANYTHING),
        required=st.booleans(),
        schema=SCHEMAS,
    )
)
OPERATIONS = fields(
    {
        "requestBody": CONTENTS | REFERENCES,
        "responses": named(pick("200 201 2XX default 404"), CONTENTS | REFERENCES),
    },
    parameters=PARAMETERS,
    operationId=WORDS | ANYTHING,
    deprecated=VALUES,
    callbacks=named(NAMES, ANYTHING) | ANYTHING,
    **dict.fromkeys(
        ("summary", "description", "security", "servers", "tags"), ANYTHING
    ),
)
METHODS = fields({"get": OPERATIONS}, post=OPERATIONS | ANYTHING, parameters=PARAMETERS)
PATHS = named(pick("/x/{id} /x x /a-b /a/b"), METHODS | REFERENCES, least=1)
NAMED_SCHEMAS = fields(dict.fromkeys(("a", "b", "a/b"), SCHEMAS))
COMPONENTS = fields(
    {"schemas": NAMED_SCHEMAS | ANYTHING},
    parameters=named(NAMES, ANYTHING),
    responses=named(NAMES, CONTENTS),
    securitySchemes=ANYTHING,
)
DESCRIPTIONS = st.fixed_dictionaries(
    {"paths": PATHS, "components": COMPONENTS},
    optional={
        "definitions": NAMED_SCHEMAS | ANYTHING,
        **dict.fromkeys(("webhooks", "x-ms-paths"), PATHS | ANYTHING),
        **dict.fromkeys(("servers", "security", "info"), ANYTHING),
    },
)
VERSIONS = st.sampled_from(
    [{"openapi": v} for v in ("3.0.3", "3.1.0", "3.2.0")] + [{"swagger": "2.0"}]
)
FUZZ = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def read(description):
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
def test_tools_are_sound_and_all_operations_are_counted(version, description):
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
def test_any_json_is_read_or_refused(content):
    read(content)
