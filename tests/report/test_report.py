import copy
import json
import re
import shutil
from dataclasses import replace

import pytest
from selectolax.lexbor import LexborHTMLParser

from tests.report.conftest import COUNTS, HITS, make_bank, record, write_hits
from toolbank.bank.bank import Bank
from toolbank.journal import Journal
from toolbank.judge.config import JudgeConfig
from toolbank.judge.judge import judge_bank
from toolbank.report.config import ReportConfig
from toolbank.report.content import read_content
from toolbank.report.report import write_report
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json, write_text

RETRIEVERS = ("bm25", "tool2vec")
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


def write(run, **settings):
    return write_report(run, ReportConfig(**settings)).read_text(encoding="utf-8")


def parse(html):
    return LexborHTMLParser(html)


def text_of(html, selector):
    nodes = parse(html).css(selector)
    return " ".join(" ".join(node.text() for node in nodes).split())


def add_judge(run):
    with Journal(run / "journal.sqlite") as journal:
        bank = Bank.load(run / "bank")
        write_json(
            run / "judge.json",
            judge_bank(bank, JudgeConfig(), seed=0, journal=journal).content,
        )


def test_counts_on_the_page_are_the_banks(run):
    html = write(run)
    keys = text_of(html, ".keys")
    for told in ("tools5", "requests6", "4 train", "2 test", "50 %of 12 attempts"):
        assert told in keys
    assert "80 %" in keys  # four of five tools have a request
    rows = [
        [cell.text(strip=True) for cell in row.css("th, td")]
        for row in parse(html).css(".funnel tr:not(.examples)")
    ]
    told = {row[0]: int(row[1]) for row in rows}
    assert told == {
        "accepted": 6,
        "declined by the writer": 1,
        "rejected: identifier": 2,
        "rejected: near-duplicate": 1,
        "failed: http-500": 2,
    }
    assert sum(told.values()) == COUNTS["attempts"]
    assert "tool_7 stands in the text" in text_of(html, ".examples")
    assert "1 tool that no request uses" in text_of(html, "#bank summary")
    assert "lib.absent \u00d7 4" in text_of(html, "#bank")


def test_twins_are_one_entry_with_the_requests_of_each_and_a_figure(run):
    assert "or twin" not in write(run)
    bank = Bank.load(run / "bank")
    first, *others = bank.tools
    twin = first.model_copy(update={"twins": (others[0].name,)})
    replace(bank, tools=(twin, *others)).save(run / "bank")
    figures = read_json(run / "metrics.json")
    twins = [record(name, "test", 0.75, metric="recall_or_twin") for name in RETRIEVERS]
    deeper = [record(name, "test", 0.8, 2, "recall_or_twin", 7) for name in RETRIEVERS]
    write_json(run / "metrics.json", [*figures, *twins, *deeper])
    html = write(run)
    rows = [row.css("td") for row in parse(html).css("#tools tbody tr")]
    cells = [" ".join(row[0].text().split()) for row in rows]
    # All six requests use the first, two of them its twin as well.
    assert cells[0] == f"{first.name} or {others[0].name}"
    assert rows[0][2].text() == "6"
    assert sorted(cells[1:]) == [tool.name for tool in others[1:]]
    (test, *_) = parse(html).css("#retrieval .tables table")
    heads = [head.text() for head in test.css("thead th")]
    assert heads == ["method", "Recall@5", "Recall@5 or twin"]
    assert "which no request can tell from it" in text_of(html, "#retrieval")


def test_numbers_of_tools_asked_for_stand_beside_what_was_accepted(run):
    path = run / "bank" / "bank.json"
    info = read_json(path)
    assert "tools asked for" not in write(run)
    numbers = {"1": {"asked": 731, "accepted": 5}, "2": {"asked": 11, "accepted": 1}}
    write_json(path, {**info, "counts": {**COUNTS, "tools_per_query": numbers}})
    made = write(run)
    assert "tools asked for" in made
    assert "731" in made
    write_json(path, {**info, "counts": {**COUNTS, "tools_per_query": {"1": 7}}})
    with pytest.raises(InputError, match=r"bank\.json"):
        write(run)


def test_best_of_each_set_is_marked_and_an_empty_set_is_shown(run):
    html = write(run)
    tables = {
        table.css_first("caption").text(strip=True): [
            cell.css_first("b").text() for cell in table.css("td.best")
        ]
        for table in parse(html).css("#retrieval .tables table")
    }
    assert tables == {
        "Held-out requestsn = 2": ["62.5"],
        "Held-out, set of tools seen in trainingn = 0": [],
        "Labelled file: realn = 40": ["50.0"],
    }
    assert "no such requests" in text_of(html, "#retrieval").lower()
    assert "finds 62 % of the tools" in text_of(html, ".standfirst")
    assert "MRR" in text_of(html, "#retrieval details")
    assert "lib.gone \u00d7 2" in text_of(html, "#retrieval")


def test_what_is_missed_is_told_by_tool_and_by_kind(run):
    section = text_of(write(run), "#misses")
    # Of four tools, tool2vec finds one whenever it is needed.
    assert "How often a tool is missed4 tools" in section
    assert "tool2vec75.0 % ± 43.3" in section.replace(" 75", "75")
    assert "By kind of asking" in section
    assert "tool2vec, terse: 25.0 %, 95 % interval" in section
    assert "By the training requests of a tool" in section
    assert "Length, by tool2vec" in section


def test_retrievers_that_differ_in_a_number_are_a_chart(run):
    names = [f"top-{k}" for k in (1, 2, 3)]
    recipe = {
        "retrievers": [
            {"type": "nearest", "name": name, "neighbours": number}
            for number, name in enumerate(names)
        ]
    }
    write_text(run / "recipe.yaml", json.dumps(recipe))
    write_json(run / "metrics.json", [record(name, "test", 0.5) for name in names])
    told = text_of(write(run), "#retrieval")
    assert "nearest: neighboursRecall@5 in percent" in told


def test_a_damaged_file_of_hits_is_named(run):
    (run / "hits" / "bm25.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(InputError, match=r"bm25\.jsonl"):
        write(run)


def test_the_judges_figures_are_labelled_as_a_heuristics(run):
    add_judge(run)
    section = text_of(write(run), "#judge")
    assert "rules (heuristic)" in section
    assert (
        "disagree on 11 for naturalness, 13 for fluency and 9 for coherence" in section
    )
    assert section.count("heuristic, n = 6") == 3
    judged = json.loads((run / "judge.json").read_text())
    win = judged["criteria"]["naturalness"]["win"]
    assert f"win{win['count']}" in section.replace(" ", "")


def test_pairs_of_the_same_text_twice_are_told_apart(run):
    add_judge(run)
    judged = json.loads((run / "judge.json").read_text())
    write_json(run / "judge.json", {**judged, "identical": 3})
    section = text_of(write(run), "#judge")
    assert "3 more pairs of the same text twice, judged by nobody" in section


def test_the_engine_is_told_honestly(run):
    for engine, told in {
        "rules": "without a language model. The engine rules made",
        "recorded": "Played back, not written in this run",
        "openai": "some-model",
    }.items():
        bank = make_bank()
        bank.info["generate"]["engine"] = engine
        bank.save(run / "bank")
        assert told in text_of(write(run), "header")


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_come_out_as_text(run, hostile):
    plain = shape(write(run))
    bank = make_bank()
    tools = [
        tool.model_copy(
            update={"name": hostile + str(i), "summary": hostile, "url": hostile}
        )
        for i, tool in enumerate(bank.tools)
    ]
    queries = [
        query.model_copy(
            update={
                "query": hostile + query.id,
                "draft": hostile,
                "explanation": hostile,
                "tools": (tools[0].name, hostile + "unknown"),
            }
        )
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
    }
    Bank(tuple(tools), tuple(queries), info).save(run / "bank")
    add_judge(run)
    records = json.loads((run / "metrics.json").read_text())
    for row in records:
        row["set"] = row["set"].replace("real", hostile)
        row["retriever"] = row["retriever"].replace("bm25", hostile)
    write_json(run / "metrics.json", records)
    write_hits(
        run,
        [
            {**row, "set": hostile, "query": hostile, "tools": [tools[i % 4].name]}
            for i, row in enumerate(HITS)
        ],
    )
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
    return {
        "scripts": [node.text() for node in nodes if node.tag == "script"],
        "handlers": {
            key for node in nodes for key in node.attributes if key.startswith("on")
        },
        "elements": {node.tag for node in nodes},
        "links": {
            (node.attributes.get("href") or "").partition("#")[1]
            or node.attributes["href"]
            for node in nodes
            if "href" in node.attributes
        },
    }


def test_nothing_is_loaded_from_elsewhere(run):
    add_judge(run)
    html = write(run)
    page = parse(html)
    assert (
        page.css("img, iframe, object, embed, link, video, audio, source, image, use")
        == []
    )
    assert not any("src" in node.attributes for node in page.css("*"))
    style = page.css_first("style").text()
    assert "url(" not in style
    assert "@import" not in style
    policy = page.css_first("meta[http-equiv]").attributes["content"]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy


def test_the_policy_lets_the_pages_own_script_run(run):
    import base64
    import hashlib

    html = write(run)
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        f"'sha256-{digest}'"
        in parse(html).css_first("meta[http-equiv]").attributes["content"]
    )


def test_same_files_same_bytes(run):
    add_judge(run)
    first = write_report(run, ReportConfig()).read_bytes()
    assert write_report(run, ReportConfig()).read_bytes() == first


@pytest.mark.parametrize("part", ["metrics.json", "labels.json", "recipe.yaml"])
def test_a_missing_part_leaves_the_rest(run, part):
    (run / part).unlink()
    html = write(run)
    assert "tools5" in text_of(html, ".keys")
    assert len(parse(html).css("article")) == 6


def test_a_bare_bank_is_enough(run):
    for name in ("metrics.json", "labels.json", "recipe.yaml", "bank/attempts.parquet"):
        (run / name).unlink()
    Bank(make_bank().tools, (), {}).save(run / "bank")
    html = write(run)
    assert "No requests yet over 5 tools" in text_of(html, ".standfirst")
    assert len(parse(html).css(".missing")) == 6


def test_an_empty_bank_is_no_error(run):
    Bank((), (), {}).save(run / "bank")
    assert "0 tools" in text_of(write(run), ".standfirst")


def test_a_run_without_a_bank_is_told_so(run):
    shutil.rmtree(run / "bank")
    with pytest.raises(InputError, match=r"tools\.parquet"):
        write(run)


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else items:
        yield from places(part, (*path, key))


def changed(value, path, new):
    """The value with a new one at a place; left out there where the new one is `...`."""
    if not path:
        return new
    value = copy.deepcopy(value)
    part = value
    for key in path[:-1]:
        part = part[key]
    if new is ...:
        del part[path[-1]]
    else:
        part[path[-1]] = new
    return value


@pytest.mark.parametrize(
    "name",
    [
        "metrics.json",
        pytest.param("judge.json", marks=pytest.mark.slow),
        "labels.json",
    ],
)
def test_a_damaged_part_is_named_or_does_no_harm(run, name):
    add_judge(run)
    whole = json.loads((run / name).read_text())
    whole = whole[:2] if name == "metrics.json" else whole
    if name == "judge.json":
        del whole["pairs"], whole["criteria"]["fluency"]
    refused = 0
    for path in places(whole):
        for new in (..., None, "x", -3, 10**400, float("nan"), {"a": []}):
            damaged = {} if not path and new is ... else changed(whole, path, new)
            write_text(run / name, json.dumps(damaged))
            try:
                read_content(run)
            except InputError as error:
                assert name in str(error)
                refused += 1
            else:
                write(run)
    assert refused > 20
    write_text(run / name, "[{")
    with pytest.raises(InputError, match=name):
        write(run)


def test_a_set_without_the_leading_cutoff_is_shown_without_it(run):
    records = [record("bm25", "test", 0.5), record("bm25", "real", 0.5, k=7)]
    write_json(run / "metrics.json", records)
    assert "Recall@7" in text_of(write(run), "#retrieval")


def test_no_credentials_of_a_url_reach_the_page(run):
    write_text(
        run / "recipe.yaml",
        "name: things\ngenerate: {base_url: 'https://user:hunter2@host:8/v1?key=hunter3'}\n",
    )
    html = write(run)
    assert "https://host:8/v1" in html
    assert "hunter" not in html


def test_samples_are_as_many_as_asked_for(run):
    for n in (0, 2, 100):
        assert len(parse(write(run, samples=n)).css("article")) == min(n, 6)


def test_the_title_is_the_recipes_name_unless_given(run):
    assert text_of(write(run), "h1") == "things"
    assert text_of(write(run, title="My tools"), "h1") == "My tools"


def compared(retriever, against, baseline, value, name="test"):
    return {
        "retriever": retriever,
        "against": against,
        "baseline": baseline,
        "set": name,
        "metric": "recall",
        "k": 5,
        "difference": value,
        "low": value - 0.1,
        "high": value + 0.1,
        "n": 2,
    }


def test_differences_are_told_with_their_intervals(run):
    records = [
        compared("tool2vec", "bm25", "nearest neighbours", 0.375),
        compared("tool2vec", "plain", "descriptions", 0.05),
        compared("tool2vec", "bm25", "nearest neighbours", -0.125, "real"),
    ]
    write_json(run / "comparisons.json", records)
    html = write(run)
    told = text_of(html, ".differences")
    for part in (
        *("minus nearest neighbours", "minus descriptions"),
        *("+37.5 bm25+27.5 to +47.5", "+5.0 plain-5.0 to +15.0", "-12.5 bm25"),
    ):
        assert part in told
    assert text_of(html, ".differences .sure") == "+37.5 -12.5"


def test_the_best_is_held_against_the_one_that_has_seen_no_request(run):
    scores = [record("tool2vec", "test", 0.75), record("plain", "test", 0.5)]
    write_json(run / "metrics.json", scores)
    differences = [compared("tool2vec", "plain", "descriptions", 0.25)]
    write_json(run / "comparisons.json", differences)
    assert "descriptions alone find 50 %" in text_of(write(run), ".standfirst")


def test_damaged_comparisons_are_refused(run):
    broken = compared("tool2vec", "bm25", "descriptions", 0.1) | {"low": "x"}
    write_json(run / "comparisons.json", [broken])
    with pytest.raises(InputError, match=r"comparisons\.json"):
        write(run)


def test_many_methods_with_long_names_are_all_shown(run):
    names = [f"method-{i}-of-the-table" for i in range(14)]
    write_json(
        run / "metrics.json",
        [
            record(name, part, 0.5)
            for part in ("test", "test-unseen-tools")
            for name in names
        ],
    )
    html = write(run)
    assert "needs a tool new to training" in text_of(html, "figcaption")
    for name in names:
        assert name in text_of(html, ".scores th")


def test_a_bank_of_a_dataset_tells_what_was_left_out(run):
    bank = make_bank()
    left_out = {"query: <blank>": {"count": 3, "examples": ["q<1>"]}}
    info = {
        "dataset": {"type": "jsonl", "files": {}},
        "left_out": left_out,
        "counts": {"tools": 5, "queries": 6},
        "withheld": {"tools": ["lib.part.tool4"], "queries_left_out": 2},
    }
    Bank(bank.tools, bank.queries, info).save(run / "bank")
    (run / "bank" / "attempts.parquet").unlink()
    told = text_of(write(run), "#made")
    assert "dataset of others, in the layout jsonl" in told
    assert "query: <blank>3q<1>" in told
    assert "1 tool withheld from training" in told


def test_what_of_the_sources_became_no_tool_is_counted_on_the_page(run):
    path = run / "bank" / "bank.json"
    sources = [
        {"source": "sphinx:lib", "left_out": {"not included": 1_112, "gone": 3}},
        {"source": "python:lib"},
    ]
    notes = ["python:lib: left out: 4 exceptions"]
    write_json(
        path, {**read_json(path), "sources": {"sources": sources, "notes": notes}}
    )
    made = parse(write(run)).css_first("#made").text(separator=" ")
    told = " ".join(made.split())
    assert "sphinx:lib not included 1,112 sphinx:lib gone 3" in told
    assert notes[0] in told
