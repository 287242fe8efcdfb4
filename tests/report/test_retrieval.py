"""What the page says of how well retrievers find tools."""

import json
from dataclasses import replace

from tests.report.conftest import compared, record
from tests.report.page import parse, text_of, write
from toolbank.bank.bank import Bank
from toolbank.system.files import read_json, write_json, write_text

RETRIEVERS = ("bm25", "tool2vec")


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


def test_what_a_score_means_is_shown_for_each_retriever(run):
    assert "What a score means" not in write(run)
    of_one = {"n_requests": 90, "threshold": 0.25, "lost": 0.02, "n": 40}
    of_one |= {"n_served": 30, "refused": 1, "error": 0.15, "counts": [300, 100]}
    of_one |= {"said": [0.1, 0.6], "happened": [0.05, 0.9]}
    rows = [of_one | {"retriever": name} for name in RETRIEVERS]
    requests = {"origin": "90 requests of evaluate.on (mine)"}
    write_json(run / "calibration.json", {"requests": requests, "retrievers": rows})
    page = parse(write(run)).css_first("#retrieval")
    captions = [one.text() for one in page.css("figcaption")]
    first, _ = [one for one in captions if "calibration error" in one]
    assert "0.150" in first and "below 25.0 %" in first and "1 of 30 served" in first
    assert requests["origin"] in " ".join(page.text().split())
    titles = [one.text() for one in page.css("title")]
    assert "10 % said, 5 % needed, of 300 hits" in titles
    assert "60 % said, 90 % needed, of 100 hits" in titles


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
    tried = [{"type": "nearest", "name": f"top-{k}", "neighbours": k} for k in range(3)]
    write_text(run / "recipe.yaml", json.dumps({"retrievers": tried}))
    write_json(
        run / "metrics.json", [record(one["name"], "test", 0.5) for one in tried]
    )
    told = text_of(write(run), "#retrieval")
    assert "nearest: neighboursRecall@5 in percent" in told


def test_a_set_without_the_leading_cutoff_is_shown_without_it(run):
    records = [record("bm25", "test", 0.5), record("bm25", "real", 0.5, k=7)]
    write_json(run / "metrics.json", records)
    assert "Recall@7" in text_of(write(run), "#retrieval")


def test_differences_are_told_with_their_intervals(run):
    records = [
        compared("tool2vec", "bm25", "nearest neighbours", 0.375),
        compared("tool2vec", "plain", "descriptions", 0.05),
        compared("tool2vec", "bm25", "nearest neighbours", -0.125, "real"),
    ]
    write_json(run / "comparisons.json", records)
    scores = [record("tool2vec", "test", 0.75), record("plain", "test", 0.5)]
    write_json(run / "metrics.json", scores)
    html = write(run)
    told = text_of(html, ".differences")
    for part in (
        *("minus nearest neighbours", "minus descriptions"),
        *("+37.5 bm25+27.5 to +47.5", "+5.0 plain-5.0 to +15.0", "-12.5 bm25"),
    ):
        assert part in told
    assert text_of(html, ".differences .sure") == "+37.5 -12.5"
    assert "descriptions alone find 50 %" in text_of(html, ".standfirst")


def test_many_methods_with_long_names_are_all_shown(run):
    names = [f"method-{i}-of-the-table" for i in range(14)]
    figures = [record(name, "test-unseen-tools", 0.5) for name in names]
    write_json(run / "metrics.json", figures)
    html = write(run)
    assert "needs a tool new to training" in text_of(html, "figcaption")
    shown = text_of(html, ".scores th")
    assert all(name in shown for name in names)
