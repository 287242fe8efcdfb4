"""Whatever texts a run holds, the page shows them and does nothing else."""

import base64
import hashlib
import json
import re

import pytest

from tests.report.conftest import HITS, calls, make_bank, write_hits
from tests.report.page import add_judge, parse, write
from toolbank.bank.bank import Bank
from toolbank.system.files import write_json, write_text

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% for x in y %}",
    "</title></style><b>out</b>",
    "javascript:alert(1)",
    "nul\x00 and \x1b[31m and \u202e",
    "long " * 20_000,
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_come_out_as_text(run, hostile):
    plain = shape(write(run))
    bank = make_bank()
    texts = {"summary": hostile, "url": hostile}
    tools = [
        tool.model_copy(update={**texts, "name": f"{hostile}{i}"})
        for i, tool in enumerate(bank.tools)
    ]
    texts = {"draft": hostile, "explanation": hostile}
    texts["tools"] = (tools[0].name, hostile + "unknown")
    queries = [
        query.model_copy(update={**texts, "query": hostile + query.id})
        for query in bank.queries
    ]
    info = {
        **bank.info,
        "domain": hostile,
        "generate": {
            "engine": hostile,
            "model": hostile,
            "examples": {"identifier": [hostile]},
            "missing_tools": {hostile: 1},
        },
        "calls": {"write": calls(1, (1, 1), 1.0, {hostile: 1})},
    }
    Bank(tuple(tools), tuple(queries), info).save(run / "bank")
    add_judge(run)
    records = json.loads((run / "metrics.json").read_text())
    for row in records:
        row["set"] = row["set"].replace("real", hostile)
        row["retriever"] = row["retriever"].replace("bm25", hostile)
    write_json(run / "metrics.json", records)
    texts = {"set": hostile, "query": hostile}
    hits = [
        {**row, **texts, "tools": [tools[i % 4].name]} for i, row in enumerate(HITS)
    ]
    write_hits(run, hits)
    write_json(run / "labels.json", [{"set": hostile, "n": 1, "unknown": {hostile: 1}}])
    html = write(run, title=hostile)
    assert len(html) < 500_000
    found = shape(html)
    assert found["scripts"] == plain["scripts"]
    assert found["handlers"] == set()
    assert found["elements"] <= plain["elements"] | {"rect", "i"}
    assert found["links"] == {"#"}
    if len(hostile) < 100:
        shown = "".join(c for c in hostile if c.isprintable())
        assert shown in parse(html).css_first("blockquote").text()
        assert "7 * 7" in html or "{{" not in hostile


def shape(html):
    """What of a page could act, and of which elements it is made."""
    nodes = parse(html).css("*")
    keys = {key for node in nodes for key in node.attributes}
    links = [n.attributes["href"] for n in nodes if "href" in n.attributes]
    return {
        "scripts": [node.text() for node in nodes if node.tag == "script"],
        "handlers": {key for key in keys if key.startswith("on")},
        "elements": {node.tag for node in nodes},
        "links": {re.sub("#.*", "#", link or "") for link in links},
    }


def test_nothing_is_loaded_from_elsewhere_and_the_pages_own_script_may_run(run):
    add_judge(run)
    html = write(run)
    page = parse(html)
    loading = "img, iframe, object, embed, link, video, audio, source, image, use"
    assert page.css(loading) == []
    assert not any("src" in node.attributes for node in page.css("*"))
    style = page.css_first("style").text()
    assert "url(" not in style and "@import" not in style
    policy = page.css_first("meta[http-equiv]").attributes["content"]
    assert "default-src 'none'" in policy
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy


def test_no_credentials_of_a_url_reach_the_page(run):
    write_text(
        run / "recipe.yaml",
        "name: things\ngenerate: {base_url: 'https://user:hunter2@host:8/v1?key=hunter3'}\n",
    )
    html = write(run)
    assert "https://host:8/v1" in html
    assert "hunter" not in html
