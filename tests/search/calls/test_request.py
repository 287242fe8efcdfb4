"""Arguments stand in their places of an HTTP request, and reach no further."""

from email import message_from_bytes
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolbank.bank.records import Argument, HttpCall
from toolbank.search.calls import CallError
from toolbank.search.calls.http import prepare_request

BASE = "https://api.example.com/v1"


def call(method="GET", path="/pets/{id}/toys", content_type="", **places):
    arguments = []
    for name, place in {"id": "path", **places}.items():
        place = {"place": place} if isinstance(place, str) else place
        arguments.append(Argument(property=name, name=name, **place))
    about = {"arguments": tuple(arguments), "content_type": content_type}
    return HttpCall(method=method, path=path, **about)


@given(st.text(min_size=1))
@example("admin/1")
@example("a?b=c")
@example("//evil.com/x")
@example("a#b@evil.com")
def test_a_path_argument_stays_in_its_segment(value):
    try:
        prepared = prepare_request(BASE, call(), {"id": value})
    except (CallError, UnicodeEncodeError):
        return
    parts = urlsplit(prepared.url)
    assert parts.netloc == "api.example.com"
    assert not parts.query and not parts.fragment
    segments = parts.path.split("/")
    assert segments[:3] == ["", "v1", "pets"] and segments[4:] == ["toys"]
    assert unquote(segments[3]) == value
    assert segments[3] not in (".", "..")


@pytest.mark.parametrize(
    "path", ["/users/{id}/messages:send", "/Users('{id}')", "/my%20pets/{id}.json"]
)
def test_what_paths_are_written_of_is_passed_on(path):
    url = prepare_request(BASE, call(path=path), {"id": "7"}).url
    assert url == BASE + path.replace("{id}", "7")


SEGMENTS = ". .. ../x a/.. ..\\x ..;x %2e%2e%2fx"
PATHS = r"""
/../../admin?x=1 /pets/../../{id} /./{id} /%2e%2e/{id} /.%2E/{id} /%252e%252e/{id}
/..;x/{id} /a%2f..%2fb/{id} /..%5c{id} /..\{id} /{id}?admin=1 /{id}%3fadmin=1 /{id}#x
/{id}%0d%0aX-Evil:%201 /{id}/%zz @evil.example/{id} evil.example/{id}
"""
ENDS = (" HTTP/1.1", "\r\nX-Evil: 1", "/\u2028")
HEADERS = """
Host authorization Cookie Content-Length Transfer-Encoding X-Forwarded-For
Proxy-Authorization Sec-Fetch-Site X-HTTP-Method-Override X_HTTP_Method_Override
X-HTTP-Method X-Method-Override X-Original-URL X-Original-Host X-Rewrite-URL X-Real-IP
"""
FORM = "application/x-www-form-urlencoded"
METHODS = ("_method", "_HttpMethod", "X-HTTP-Method-Override")
REFUSED = [
    # An operation, further arguments, and what is named.
    *(
        (call(), {"id": value}, "id: .* in a path")
        for value in (*SEGMENTS.split(), "", "a\r\nHost: evil", "\x00")
    ),
    *(
        (call(path=path), {}, "operation's path")
        for path in (*PATHS.split(), *(f"/{{id}}{end}" for end in ENDS))
    ),
    (call(path="/{id}../admin"), {"id": "b/"}, "path"),
    (call(path="/{id}../{x}../y", x="path"), {"id": "/", "x": "/"}, "path"),
    (call(path="/.{id}/admin"), {"id": "."}, "path"),
    *((call(one), {}, "method") for one in ("CONNECT", "GET /a HTTP/1.1\r\nX:", "")),
    *((call(**{one: "query"}), {one: "DELETE"}, one) for one in METHODS),
    *((call(f="query"), {"f": {one: "DELETE"}}, one) for one in METHODS),
    *((call(**{one: "header"}), {one: "x"}, "this header") for one in HEADERS.split()),
    (call(**{"X: 1\r\nX-More": "header"}), {"X: 1\r\nX-More": "x"}, "this header"),
    *(
        (call(trace="header"), {"trace": value}, "trace: ")
        for value in ("a\r\nX-Evil: 1", "a\nb", "\x00", "\u2028")
    ),
    (call("POST", content_type="a/b; x\r\nX: 1", a="body"), {"a": "x"}, "content type"),
    (call("POST", content_type="a/b", a="form"), {"a": 1}, "a/b"),
    (call("POST", content_type=FORM, _method="form"), {"_method": "PUT"}, "_method"),
    (call(path="/{id}/{all+}", **{"all+": "path"}), {"all+": "a/../../b"}, "in a path"),
    (call(), {"host": "evil"}, "no argument 'host'"),
    (call(session="cookie"), {"session": "x"}, "session: cookies"),
    (call(), {"id": ...}, "missing"),
]


@pytest.mark.parametrize(("operation", "more", "named"), REFUSED)
def test_an_argument_that_would_reach_further_is_refused(operation, more, named):
    values = {name: one for name, one in {"id": "1", **more}.items() if one is not ...}
    with pytest.raises(CallError, match=named):
        prepare_request(BASE, operation, values)


@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        ("", None, "a b&c=d", "f=a%20b%26c%3Dd"),
        ("form", None, ["a", "b,c"], "f=a&f=b%2Cc"),
        ("form", False, ["a", "b"], "f=a%2Cb"),
        ("spaceDelimited", False, ["a", "b"], "f=a%20b"),
        ("pipeDelimited", False, ["a", "b"], "f=a%7Cb"),
        ("deepObject", True, {"x": 1, "y": True}, "f%5Bx%5D=1&f%5By%5D=true"),
        ("deepObject", True, {"x": {"y": [1]}}, "f%5Bx%5D%5By%5D%5B0%5D=1"),
        ("tabDelimited", False, ["a", "b"], "f=a%09b"),
        ("form", True, {"x": 1}, "x=1"),
        ("application/json", None, {"x": [1]}, "f=%7B%22x%22%3A%20%5B1%5D%7D"),
        ("", None, 1.5, "f=1.5"),
        ("", None, 2.0, "f=2"),
        ("", None, None, "f=null"),
    ],
)
def test_a_query_is_written_in_its_style(style, explode, value, query):
    place = {"place": "query", "style": style, "explode": explode}
    prepared = prepare_request(BASE, call(f=place), {"id": 5.0, "f": value})
    assert prepared.url == f"{BASE}/pets/5/toys?{query}"


def test_a_body_is_written_as_the_operation_has_it():
    json_call = call("POST", content_type="application/json", name="body", age="body")
    prepared = prepare_request(BASE, json_call, {"id": "1", "name": "Rex", "age": 3})
    assert prepared.body == b'{"name": "Rex", "age": 3}'
    assert prepared.headers["Content-Type"] == "application/json"


STYLED = {"place": "form", "style": "deepObject", "explode": True}
JOINED = {"place": "form", "explode": False}
SAID_JSON = {"place": "form", "style": "application/json"}


@pytest.mark.parametrize(
    ("place", "value", "fields"),
    [
        ("form", "a&b", [("f", "a&b")]),
        ("form", ["a", 1], [("f", "a"), ("f", "1")]),
        ("form", {"a": [1]}, [("f", '{"a": [1]}')]),
        (STYLED, {"a": {"b": 1}}, [("f[a][b]", "1")]),
        (STYLED, [{"price": "x"}, "y"], [("f[0][price]", "x"), ("f[1]", "y")]),
        (STYLED, "x", [("f", "x")]),
        (JOINED, [1, 2], [("f", "1,2")]),
        (JOINED | {"style": "pipeDelimited"}, [1, 2], [("f", "1|2")]),
        ({"place": "form", "explode": True}, {"a": 1}, [("a", "1")]),
        (SAID_JSON, [1], [("f", "[1]")]),
    ],
)
def test_a_form_is_written_as_forms_are(place, value, fields):
    for kind in (FORM, "multipart/form-data"):
        form = call("POST", content_type=kind, f=place)
        prepared = prepare_request(BASE, form, {"id": "1", "f": value})
        assert read_form(prepared) == fields


def test_a_whole_form_and_names_with_quotes_are_fields():
    whole = Argument(property="body", place="form", name="")
    form = HttpCall(method="POST", path="/a", arguments=(whole,), content_type=FORM)
    prepared = prepare_request(BASE, form, {"body": {"a[]": [1, 2]}})
    assert read_form(prepared) == [("a[]", "1"), ("a[]", "2")]
    with pytest.raises(CallError, match="body: a form"):
        prepare_request(BASE, form, {"body": [1]})
    odd = call("POST", content_type="multipart/form-data", **{'a"\r\nX: 1': "form"})
    body = prepare_request(BASE, odd, {"id": "1", 'a"\r\nX: 1': "é"}).body
    assert b'name="a%22%0D%0AX: 1"' in body and b"\r\nX: 1" not in body


def read_form(prepared):
    kind = prepared.headers["Content-Type"]
    if kind == FORM:
        return parse_qsl(prepared.body.decode())
    head = f"Content-Type: {kind}\r\n\r\n".encode()
    parts = message_from_bytes(head + prepared.body).get_payload()
    return [
        (part.get_param("name", header="content-disposition"), part.get_payload())
        for part in parts
    ]


@pytest.mark.parametrize("name", ["all+", "*all", "all=a/*", "+all", "all..."])
def test_what_is_several_segments_of_a_path_keeps_its_slashes(name):
    several = call(path=f"/{{id}}/{{{name}}}", **{name: "path"})
    prepared = prepare_request(BASE, several, {"id": "1", name: "a/b c"})
    assert prepared.url == f"{BASE}/1/a/b%20c"
