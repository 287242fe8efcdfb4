"""Searching over HTTP: what is asked, what is answered, and what is refused."""

import re
from urllib.parse import quote

import pytest

from tests.commands.in_process import toolbank
from tests.search.packed.packs import (
    FITTING,
    TOOLS,
    UNFITTING,
    make_0_7_0,
    write_calibrated_pack,
    write_pack,
)
from tests.search.serve.servers import serving


def names(result):
    return [hit["name"] for hit in result["hits"]]


def test_hits_have_names_scores_and_summaries(server):
    answer = server.ask("/search?q=send+a+letter&k=2")
    assert answer.status == 200
    assert set(answer.json) == {"hits", "calibrated"}
    assert answer.json["calibrated"] is False
    first, second = answer.json["hits"]
    assert (first["name"], first["summary"]) == (TOOLS[6].name, TOOLS[6].summary)
    assert 1 >= first["score"] >= second["score"] >= 0
    [first, *_] = server.ask("/search?q=GET%20%2Fstorms").json["hits"]
    assert (first["name"], first["score"]) == ("GET /storms", 1)


def test_an_answer_is_marked_and_has_its_hits(marking):
    def count():
        metrics = marking.ask("/metrics").body.decode()
        found = re.search(r'nothing_fits_total{finder="marking"} (\d+)', metrics)
        return int(found[1]) if found else 0

    described = marking.ask("/openapi.json").json["components"]["schemas"]
    described = described["AnswerContent"]["properties"]
    assert described["fits"]["type"] == "boolean"
    before = count()
    for query in (*FITTING, *UNFITTING):
        answer = marking.ask(f"/search?q={quote(query)}").json
        assert set(answer) == {"hits", "fits"} <= set(described)
        assert answer["hits"] and answer["fits"] is (query in FITTING)
    batch = {"queries": [UNFITTING[0]], "min_score": 0.9}
    none = {"hits": [], "fits": False}
    assert marking.ask("/search", batch).json["results"] == [none]
    assert marking.ask("/search?q=zebra").json == none
    assert count() - before == len(UNFITTING) + 2


def test_why_scores_are_not_calibrated_is_said_when_it_starts_and_by_facets(tmp_path):
    write_pack(tmp_path / "new", calibrate=lambda *_: "of a reason")
    make_0_7_0(tmp_path / "old", write_calibrated_pack(tmp_path / "old"))
    with serving(tmp_path / "new", tmp_path / "old") as server:
        reasons = {"new": "of a reason", "old": "an earlier version"}
        for name, why in reasons.items():
            line = next(server.read_errors())
            assert name in line and why in line
            facets = server.ask(f"/{name}/facets").json
            assert facets["calibrated"] == [] and why in facets["uncalibrated"]["bm25"]
            answer = server.ask(f"/{name}/search?q={quote(UNFITTING[0])}").json
            assert answer["hits"] and answer["calibrated"] is False
            assert "fits" not in answer


def test_hits_are_filtered(server):
    def ask(more=""):
        return server.ask(f"/search?q=the+song+of+a+house&k=8{more}").json

    every = ask()["hits"]
    assert len(every) > 2
    post = {"get_weather", "GET /storms", "mail.send", "mail.read"}
    for more, kept in [
        ("&tag=sound", {"music.play", "music.stop"}),
        ("&source=weather&source=post", post),
        ("&kind=operation&source=home", set()),
    ]:
        assert set(names(ask(more))) <= kept
    found = ask(f"&min_score={every[1]['score'] - 1e-6}")["hits"]
    assert found == every[: len(found)]
    assert 2 <= len(found) < len(every)


def test_a_batch_is_answered_in_its_order(server):
    asked = ["lock the door", "zebra", "send a letter", "lock the door"]
    results = server.ask("/search", {"queries": asked, "k": 1}).json["results"]
    found = [names(result) for result in results]
    assert found == [["door.lock"], [], ["mail.send"], ["door.lock"]]
    one_by_one = [server.ask(f"/search?k=1&q={quote(q)}").json for q in asked]
    assert results == one_by_one
    assert server.ask("/search", {"queries": []}).json == {"results": []}


def test_each_finder_is_behind_its_name(server):
    found = names(server.ask("/post/search?q=lock+the+letter").json)
    assert set(found) == {"mail.read", "mail.send"}
    first = server.ask("/search?q=lock+the+letter").json
    assert names(server.ask("/home/search?q=lock+the+letter").json) == names(first)
    finders = server.ask("/healthz").json["finders"]
    assert {name: one["tools"] for name, one in finders.items()} == {
        "home": 8,
        "post": 2,
    }


def test_a_tool_is_described(server):
    tool = server.ask(f"/tools/{quote('GET /storms', safe='')}").json
    assert tool["summary"] == "List storms near a city."
    assert tool["function"]["type"] == "function"
    assert server.ask("/tools/Forecast").json["name"] == "get_weather"


def test_what_can_be_searched_with_is_told(server):
    facets = server.ask("/facets").json
    assert facets["retrievers"] == ["bm25"]
    assert facets["facets"]["source"] == ["home", "post", "weather"]
    assert facets["logs"] is False
    near = server.ask("/nearest?q=rain").json["requests"]
    assert near == [{"query": "will it rain in Oslo", "tools": ["get_weather"]}]
    assert server.ask("/post/nearest?q=rain").json == {"requests": []}


REFUSED = [
    # A request, what is named, and what is allowed.
    ("?", "q", "missing"),
    ("?q=", "q", "at least 1 character"),
    ("?q=%20%0A", "q", "empty"),
    ("?q=a&k=0", "k", "at least 1 (got '0')"),
    ("?q=a&k=many", "k", "integer (got 'many')"),
    ("?q=a&k=1001", "k", "at most 1000"),
    ("?q=a&k=1&k=2", "'k'", "twice"),
    ("?q=a&min_score=2", "min_score", "at most 1"),
    ("?q=a&min_score=nan", "min_score", "number (got 'nan')"),
    ("?q=a&k=1_0", "k", "integer"),
    ("?q=a&k=%D9%A3", "k", "integer"),
    ("?q=a&top=3", "'top'", "k, min_score, retriever, source, kind, tag, q"),
    ("?q=a&top=", "'top'", "k, min_score"),
    ("?q=a&tag=zebra", "tag 'zebra'", "there are: sound."),
    ("?q=a&retriever=zebra", "'zebra'", "there are: bm25"),
    ("?q=" + "a" * 10_001, "q", "at most 10000"),
    ("?q=a%00b%FF", "address", "UTF-8"),
    (b"{", "body", "JSON"),
    (b"\xff\xfe", "body", "JSON"),
    (b"[" * 100_000, "body", "too deep"),
    (b'{"k": ' + b"9" * 99_999 + b"}", "body", "JSON"),
    ([], "body", "object"),
    ({}, "queries", "missing"),
    ({"queries": "a"}, "queries", "list"),
    ({"queries": None}, "queries", "list"),
    ({"queries": [1]}, "queries.0", "string (got '1')"),
    ({"queries": ["a", " "]}, "queries.1", "empty"),
    ({"queries": ["a"] * 257}, "queries", "at most 256"),
    ({"queries": ["a"] * 256, "k": 20}, "k 20", "5,120 hits; at most 5,000"),
    ({"queries": ["a"], "k": True}, "k", "integer (got 'True')"),
    ({"queries": ["a"], "k": "9" * 99_999}, "k", "integer"),
    ({"queries": ["a"], "k": 1.5}, "k", "integer (got '1.5')"),
    ({"queries": ["a"], "k": 5.0}, "k", "integer"),
    ({"queries": ["a"], "min_score": 10**400}, "min_score", ""),
    ({"queries": ["a"], "min_score": float("nan")}, "min_score", "number"),
    ({"queries": ["a"], "min_score": True}, "min_score", "number"),
    ({"queries": ["a"], "retriever": 3}, "retriever", "string"),
    ({"queries": ["a"], "source": 3}, "source", "list"),
    ({"queries": ["a"], "tag": [3]}, "tag.0", "string"),
    ({"queries": ["a"], "kind": None}, "kind", "list"),
    ({"queries": ["a"], "query": "b"}, "'query'", "queries"),
    ({"queries": ["a"], "\ud800": "b"}, "", ""),
    ({"queries": ["\ud800"]}, "queries.0", "unicode"),
]


@pytest.mark.parametrize(("request_", "named", "allowed"), REFUSED)
def test_a_wrong_request_is_refused_by_name(server, request_, named, allowed):
    if isinstance(request_, str):
        answer = server.ask(f"/search{request_}")
    else:
        answer = server.ask("/search", request_, Content_Type="application/json")
    assert (answer.status, answer.error) == (400, "bad_request")
    message = answer.json["error"]["message"]
    assert named in message and allowed in message
    assert len(message) < 300


def test_what_a_body_may_leave_out_it_may(server):
    body = {"queries": ["song"], "k": None, "min_score": None, "retriever": None}
    one = server.ask("/search", {**body, "tag": "sound", "min_score": 0})
    same = server.ask("/search", {**body, "tag": ["sound"], "min_score": 0.0})
    assert one.json == same.json
    odd = ("song&k=&min_score=&tag=&retriever=", "%00song", "%F0%9F%8E%B5" * 900)
    assert all(server.ask(f"/search?q={query}").status == 200 for query in odd)


@pytest.mark.parametrize(
    ("path", "method", "body", "status", "code"),
    [
        ("/nothing", "GET", None, 404, "not_found"),
        ("/search", "DELETE", None, 405, "method_not_allowed"),
        ("/search", "POST", b"q=a", 415, "unsupported_media_type"),
        ("/search", "POST", b" " * 1_000_001, 413, "too_large"),
        ("/mcp", "GET", None, 405, "method_not_allowed"),
        ("/home/mcp", "DELETE", None, 405, "method_not_allowed"),
        ("/mcp", "POST", b"q=a", 415, "unsupported_media_type"),
        ("/feedback", "POST", b"{}", 404, "not_found"),
        ("/tools/zebra", "GET", None, 404, "not_found"),
        ("/tools/%00%ff", "GET", None, 404, "not_found"),
        ("/tools/..%2f..%2fetc%2fpasswd", "GET", None, 404, "not_found"),
        ("/search?q=%ff%fe", "GET", None, 400, "bad_request"),
        ("/nearest?q=a&k=3", "GET", None, 400, "bad_request"),
    ],
)
def test_errors_have_one_shape(server, path, method, body, status, code):
    answer = server.ask(path, body, method)
    assert (answer.status, answer.error) == (status, code)
    assert set(answer.json["error"]) == {"code", "message"}
    if path == "/search" and status == 405:
        assert "GET, HEAD, POST" in answer.json["error"]["message"]


def test_the_server_describes_itself(server, tmp_path):
    answer = server.ask("/openapi.json")
    (tmp_path / "openapi.json").write_bytes(answer.body)
    assert b"null" not in answer.body, "an absent key isn't null"
    read = toolbank("tools", "openapi.json", cwd=tmp_path)
    assert read.returncode == 0, read.stderr
    paths = answer.json["paths"]
    assert {"/search", "/home/search", "/tools/{name}", "/healthz"} <= set(paths)
    [kind] = paths["/metrics"]["get"]["responses"]["200"]["content"]
    assert server.ask("/metrics").headers["content-type"].startswith(kind)


def test_metrics_count_and_hold_nothing_of_what_was_asked(server):
    server.ask("/search?q=secretword+letter")
    text = server.ask("/metrics").body.decode()
    assert 'toolbank_requests_total{route="/search",status="200"}' in text
    assert 'toolbank_search_seconds_bucket{finder="home",le="+Inf"}' in text
    assert "secretword" not in text
