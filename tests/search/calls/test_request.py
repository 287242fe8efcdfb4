"""Arguments stand in their places of an HTTP request, and reach no further."""

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.bank.records import Argument, HttpCall
from toolbank.search.calls import CallError
from toolbank.search.calls.request import prepare_request

BASE = "https://api.example.com/v1"


def call(method="GET", path="/pets/{id}/toys", content_type="", **places):
    arguments = [Argument(property="id", place="path", name="id")]
    arguments += [
        Argument(
            property=name,
            name=name,
            **({"place": place} if isinstance(place, str) else place),
        )
        for name, place in places.items()
    ]
    return HttpCall(
        method=method, path=path, arguments=tuple(arguments), content_type=content_type
    )


@given(st.text(min_size=1))
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
    "value",
    [
        "",
        ".",
        "..",
        "../x",
        "a/..",
        "..\\x",
        "..;x",
        "%2e%2e%2fx",
        "a\r\nHost: evil",
        "\x00",
    ],
)
def test_what_would_leave_the_segment_is_refused(value):
    with pytest.raises(CallError, match="not allowed in a path"):
        prepare_request(BASE, call(), {"id": value})


@pytest.mark.parametrize(
    "value",
    ["admin/1", "a?b=c", "a#b", "//evil.com/x", "@evil.com"],
)
def test_what_means_something_in_an_address_is_encoded(value):
    url = prepare_request(BASE, call(), {"id": value}).url
    assert urlsplit(url).path.count("/") == 4
    assert url.startswith(f"{BASE}/pets/") and url.endswith("/toys")


@pytest.mark.parametrize(
    "path",
    [
        "/../../admin?x=1",
        "/pets/../../{id}",
        "/./{id}",
        "/%2e%2e/{id}",
        "/.%2E/{id}",
        "/%252e%252e/{id}",
        "/..;x/{id}",
        "/a%2f..%2fb/{id}",
        "/..%5c{id}",
        "/..\\{id}",
        "/{id}?admin=1",
        "/{id}%3fadmin=1",
        "/{id}#x",
        "/{id} HTTP/1.1",
        "/{id}\r\nX-Evil: 1",
        "/{id}%0d%0aX-Evil:%201",
        "/{id}/%zz",
        "/{id}/\u2028",
        "@evil.example/{id}",
        "evil.example/{id}",
    ],
)
def test_a_path_of_a_pack_stays_in_its_place(path):
    with pytest.raises(CallError, match="or leaves that of the API"):
        prepare_request(BASE, call(path=path), {"id": "1"})


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/{id}../admin", {"id": "b/"}),
        ("/{id}../{other}../admin", {"id": "/", "other": "/"}),
        ("/.{id}/admin", {"id": "."}),
    ],
)
def test_a_path_and_its_arguments_together_stay_in_their_place(path, values):
    with pytest.raises(CallError, match=r"leaves|not allowed"):
        prepare_request(BASE, call(path=path, other="path"), values)


@pytest.mark.parametrize(
    "path", ["/users/{id}/messages:send", "/Users('{id}')", "/my%20pets/{id}.json"]
)
def test_what_paths_are_written_of_is_passed_on(path):
    url = prepare_request(BASE, call(path=path), {"id": "7"}).url
    assert url == BASE + path.replace("{id}", "7")


@pytest.mark.parametrize("method", ["CONNECT", "GET /admin HTTP/1.1\r\nX:", ""])
def test_a_method_is_one_of_those_that_there_are(method):
    with pytest.raises(CallError, match="method is none that is passed on"):
        prepare_request(BASE, call(method), {"id": "1"})


@pytest.mark.parametrize("name", ["_method", "_HttpMethod", "X-HTTP-Method-Override"])
def test_no_parameter_turns_a_request_into_another(name):
    with pytest.raises(CallError, match="another method"):
        asked = call(**{name: "query"})
        prepare_request(BASE, asked, {"id": "1", name: "DELETE"})
    with pytest.raises(CallError, match="another method"):
        asked = call(filter="query")
        prepare_request(BASE, asked, {"id": "1", "filter": {name: "DELETE"}})


def test_a_content_type_is_one_line():
    evil = call("POST", content_type="application/json; x\r\nX-Evil: 1", name="body")
    with pytest.raises(CallError, match="content type holds what a header can't"):
        prepare_request(BASE, evil, {"id": "1", "name": "x"})


@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "authorization",
        "Cookie",
        "Content-Length",
        "Transfer-Encoding",
        "X-Forwarded-For",
        "Proxy-Authorization",
        "Sec-Fetch-Site",
        "X-HTTP-Method-Override",
        "X_HTTP_Method_Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X-Original-URL",
        "X-Original-Host",
        "X-Rewrite-URL",
        "X-Real-IP",
        "X-Evil: 1\r\nX-More",
    ],
)
def test_no_argument_sets_a_header_of_ours(name):
    with pytest.raises(CallError, match="may not set this header"):
        prepare_request(BASE, call(**{name: "header"}), {"id": "1", name: "x"})


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "\x00", "\u2028"])
def test_a_header_holds_one_line(value):
    with pytest.raises(CallError, match="holds what a header can't"):
        prepare_request(BASE, call(trace="header"), {"id": "1", "trace": value})


def test_an_argument_without_a_place_is_refused():
    with pytest.raises(CallError, match="no argument 'host'"):
        prepare_request(BASE, call(), {"id": "1", "host": "evil"})
    with pytest.raises(CallError, match="cookie"):
        prepare_request(BASE, call(session="cookie"), {"id": "1", "session": "x"})
    with pytest.raises(CallError, match="missing"):
        prepare_request(BASE, call(), {})


@pytest.mark.parametrize(
    ("style", "explode", "value", "query"),
    [
        ("", None, "a b&c=d", "f=a%20b%26c%3Dd"),
        ("form", None, ["a", "b,c"], "f=a&f=b%2Cc"),
        ("form", False, ["a", "b"], "f=a%2Cb"),
        ("spaceDelimited", False, ["a", "b"], "f=a%20b"),
        ("pipeDelimited", False, ["a", "b"], "f=a%7Cb"),
        ("deepObject", True, {"x": 1, "y": True}, "f%5Bx%5D=1&f%5By%5D=true"),
        ("form", True, {"x": 1}, "x=1"),
        ("application/json", None, {"x": [1]}, "f=%7B%22x%22%3A%20%5B1%5D%7D"),
        ("", None, 1.5, "f=1.5"),
        ("", None, None, "f=null"),
    ],
)
def test_a_query_is_written_in_its_style(style, explode, value, query):
    place = {"place": "query", "style": style, "explode": explode}
    prepared = prepare_request(BASE, call(f=place), {"id": "1", "f": value})
    assert urlsplit(prepared.url).query == query


def test_a_body_is_written_as_the_operation_has_it():
    json_call = call("POST", content_type="application/json", name="body", age="body")
    prepared = prepare_request(BASE, json_call, {"id": "1", "name": "Rex", "age": 3})
    assert prepared.body == b'{"name": "Rex", "age": 3}'
    assert prepared.headers["Content-Type"] == "application/json"
    form = call("POST", content_type="application/x-www-form-urlencoded", name="form")
    assert prepare_request(BASE, form, {"id": "1", "name": "a&b"}).body == b"name=a%26b"
    parts = call("POST", content_type="multipart/form-data", name="form")
    with pytest.raises(CallError, match="multipart/form-data, which is not supported"):
        prepare_request(BASE, parts, {"id": "1", "name": "x"})


def test_a_whole_number_has_no_point():
    asked = call(limit="query")
    url = prepare_request(BASE, asked, {"id": 5.0, "limit": 2.0}).url
    assert url == f"{BASE}/pets/5/toys?limit=2"
