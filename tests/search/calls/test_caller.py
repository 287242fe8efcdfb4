"""Which calls are passed on, where they go, and what does not get through."""

import asyncio

import pytest

from tests.search.calls.apis import serving_api
from toolbank.bank.records import Argument, HttpCall, McpCall, PythonCall, Tool
from toolbank.search.calls import CallError, Credential, Target, http, read_targets
from toolbank.search.calls.caller import ToolCaller, describe_permissions
from toolbank.system.errors import InputError

NUMBER = {"type": "object", "properties": {"id": {"type": "string"}}}
NUMBER |= {"required": ["id"], "additionalProperties": False}
PLACE = {"path": "/pets/{id}", "server": "http://proposed.example"}
PLACE["arguments"] = (Argument(property="id", place="path", name="id"),)


def operation(name, method="GET", source="pets"):
    call = HttpCall(method=method, **PLACE)
    return Tool(name=name, source=source, parameters=NUMBER, call=call)


GET, DELETE = operation("getPet"), operation("deletePet", "DELETE")


@pytest.fixture(scope="module")
def api():
    with serving_api() as serving:
        yield serving


def call(tool, arguments, address, patterns=("*",), writes=False, **target):
    targets = {"pets": Target(url=address, **{"private": True, **target})}
    caller = ToolCaller(patterns, targets, writes=writes)
    [part] = asyncio.run(caller.call(tool, arguments)).content
    return part.text


def test_a_call_is_passed_on(api, monkeypatch):
    address, came = api
    monkeypatch.setenv("PETS_KEY", "a-secret")
    credential = {"variable": "PETS_KEY", "header": "X-Key", "prefix": ""}
    answer = call(GET, {"id": "a b/c"}, address + "/v1", credential=credential)
    assert answer == '{"path": "/v1/pets/a%20b%2Fc"}'
    method, path, headers, body = came[-1]
    assert (method, path, body) == ("GET", "/v1/pets/a%20b%2Fc", b"")
    assert headers["X-Key"] == "a-secret"
    assert "Cookie" not in headers
    call(DELETE, {"id": "1"}, address, writes=True)
    assert came[-1][:2] == ("DELETE", "/pets/1")


REFUSED = [
    (GET, {"id": "1"}, {"patterns": ("put*",)}, "may not be called"),
    (DELETE, {"id": "1"}, {}, "may change something"),
    (GET, {}, {}, "'id' is a required property"),
    (GET, {"id": 1}, {}, "at id: 1 is not of type"),
    (GET, {"id": "1", "extra": 1}, {}, "Additional properties"),
    (GET, {"id": ".."}, {}, "not allowed in a path"),
    # A name is checked where it is connected to, not by an earlier answer.
    (GET, {"id": "1"}, {"private": False}, "not public"),
    (GET, {"id": "1"}, {"credential": {"variable": "NO_SUCH_KEY"}}, "NO_SUCH_KEY: "),
    (Tool(name="f", call=PythonCall(path="os.system")), {}, {}, "over a network"),
    (operation("other", source="other"), {"id": "1"}, {}, "no target"),
    (
        GET.model_copy(update={"parameters": {"$ref": "ADDRESS/schema.json"}}),
        *({"id": "1"}, {}, "schema cannot be checked"),
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "options", "said"), REFUSED)
def test_what_may_not_be_is_not_sent(api, tool, arguments, options, said):
    address, came = api
    before = len(came)
    if "$ref" in tool.parameters:
        schema = {"$ref": f"{address}/schema.json"}
        tool = tool.model_copy(update={"parameters": schema})
    for host in (address, address.replace("127.0.0.1", "localhost")):
        with pytest.raises(CallError, match=said):
            call(tool, arguments, host, **options)
    assert len(came) == before


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("redirect", "302, a redirect, which is not followed"),
        ("huge", "larger than 1,000,000 bytes"),
        ("slow", r"did not answer in 0\.2 s"),
        ("broken", "answered 500"),
    ],
)
def test_an_answer_that_is_none_is_refused(api, monkeypatch, number, said):
    address, came = api
    if number == "slow":
        monkeypatch.setattr(http, "CALL_TIME", 0.2)
    with pytest.raises(CallError, match=said):
        call(GET, {"id": number}, address)
    assert number in came[-1][1]
    with pytest.raises(CallError, match="cannot be reached"):
        call(GET, {"id": "1"}, "http://127.0.0.1:9")


def describe(*tools, **targets):
    caller = ToolCaller(["get*", "delete*", "run"], targets, writes=False)
    return describe_permissions(caller, tools)


def test_where_calls_go_is_shown_and_what_is_proposed_is_not_used():
    run = Tool(name="run", call=McpCall(source="weather", tool="run"))
    [lacks] = describe(GET, DELETE, run)
    assert "pets:\n    url: http://proposed.example" in lacks
    assert "weather:" in lacks
    with pytest.raises(CallError, match="no target"):
        caller = ToolCaller(["get*"], {}, writes=False)
        asyncio.run(caller.call(GET, {"id": "1"}))
    first, _ = describe(GET, run, pets=Target(url="https://pets.example"))
    assert first == "calls of 1 tools go to https://pets.example"


def test_what_will_not_be_called_is_told_at_the_start():
    assert describe(GET, DELETE, pets=Target(url="http://127.0.0.1/")) == [
        "calls of 1 tools go to http://127.0.0.1/",
        "1 tools of http://127.0.0.1/ may change something, and need --call-writes",
        "--call-config: pets: the address is not public; without `private: true`, calls will fail",
    ]
    told = describe(
        GET,
        pets=Target(
            url="https://pets.example", credential=Credential(variable="NO_KEY")
        ),
        plants=Target(command=("x",), environment={"KEY": "NO_KEY"}),
    )
    assert [line.partition(": ")[2] for line in told[1:]] == [
        "pets: NO_KEY not set; calls will fail",
        "plants is not the source of a tool that matches --call and can be called",
        "plants: NO_KEY not set; calls will fail",
    ]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("{}", "give one of"),
        ("{url: 'ftp://x'}", "not an http or https address"),
        ("{url: 'https://me:secret@x'}", "`credential`"),
        ("{url: 'https://x', mcp: 'https://y'}", "give one of"),
        ("{url: 'https://x', key: abc}", "key"),
        ("{url: 'https://x', read_only: [a]}", "only for mcp or command"),
        ("[", "not valid YAML"),
    ],
)
def test_a_wrong_file_is_told_what_is_wrong(tmp_path, target, said):
    path = tmp_path / "calls.yaml"
    path.write_text(f"sources: {{pets: {target}}}")
    with pytest.raises(InputError, match=said) as told:
        read_targets([path])
    assert str(path) in str(told.value)
    assert "me:secret" not in str(told.value)


def call_mcp(name, tool, pattern, **target):
    """Call an MCP server's tool by a command that isn't there, so that nothing is found to do."""
    mcp = McpCall(source="notes", tool=tool)
    called = Tool(name=name, annotations={"readOnlyHint": True}, call=mcp)
    targets = {"notes": Target(command=("/no/such/program",), **target)}
    asyncio.run(ToolCaller([pattern], targets, writes=False).call(called, {}))


SENT = "No such file"


def test_a_pack_does_not_say_what_changes_nothing():
    with pytest.raises(CallError, match="may change something"):
        call_mcp("read", "read", "*")
    with pytest.raises(CallError, match=SENT):
        call_mcp("read", "read", "*", read_only=["re*"])


@pytest.mark.parametrize("pattern", ["read", "notes/read", "notes/r*"])
def test_a_pack_does_not_give_one_tool_the_name_of_another(pattern):
    name = pattern.replace("*", "ead")
    for tool, said in (("delete_all", "may not be called"), ("read", SENT)):
        with pytest.raises(CallError, match=said):
            call_mcp(name, tool, pattern, read_only=["*"])
