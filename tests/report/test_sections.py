"""The sections of the page on quality, judge and verification."""

import json
from dataclasses import replace

from tests.report.conftest import make_bank
from tests.report.page import add_judge, parse, rows_of, text_of, write
from tests.tiny_models import tiny_encoder
from toolbank.bank.bank import Bank, Label
from toolbank.bank.records import Ask, Query, Tool
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import DescriptionsConfig
from toolbank.system.files import write_json


def test_the_figures_stand_there_with_what_they_say(run):
    html = write(run)
    # tool0 has six uses, three others two each, one none.
    all_of_them = ("changed by the polish", "drafts in steps", "what came of")
    wanted = dict.fromkeys(all_of_them, "100.0 %")
    wanted |= {"tools used at least 5 times": "20.0 %", "Gini of the uses": "0.40"}
    wanted["distinct sets of tools"] = "50.0 %"
    rows = rows_of(parse(html).css_first("#quality"))
    assert wanted.items() <= {row[0]: row[1] for row in rows}.items()
    assert "How requests begin" in text_of(html, "#quality figcaption")
    assert html == write(run)


def test_kinds_of_asks_have_a_row_each_and_all_is_escaped(run):
    bank = make_bank()
    yak = Tool(name="x.<b>yak</b>", summary="<script>")
    query = Query(id="z", query="<b>Hi</b> you <i>", tools=(yak.name,))
    ask = Ask(tool=yak.name, kind="<i>kind</i>", ask="a yak")
    Bank((*bank.tools, yak), (*bank.queries, query), bank.info, (ask,)).save(
        run / "bank"
    )
    html = write(run)
    assert ["<i>kind</i>", "1", "0.50", "1.00"] in rows_of(parse(html), "#quality tr")
    for markup in ("<i>", "<b>Hi", "<b>yak"):
        assert markup not in html


def test_groups_of_requests_are_shown(run, tmp_path):
    bank = make_bank(30)
    bank.save(run / "bank")
    encoder = {"model": str(tiny_encoder(tmp_path / "tiny"))}
    retriever = create_retriever(DescriptionsConfig(encoder=encoder))
    retriever.fit(bank)
    retriever.save(run / "models" / "descriptions")
    told = text_of(write(run), "#vectors")
    assert "30 requests in 12 groups by k-means" in told
    assert "What came of thing" in told


def test_the_judges_figures_are_labelled_as_a_heuristics(run):
    add_judge(run)
    judged = json.loads((run / "judge.json").read_text())
    write_json(run / "judge.json", {**judged, "identical": 3})
    section = text_of(write(run), "#judge")
    assert "rules (heuristic)" in section
    assert "11 for naturalness, 13 for fluency and 9 for coherence" in section
    assert section.count("heuristic, n = 6") == 3
    win = judged["criteria"]["naturalness"]["win"]
    assert f"win{win['count']}" in section.replace(" ", "")
    assert "3 more pairs of the same text twice" in section


AGREEMENT = [
    "requests",
    "aside",
    "same",
    "labels",
    "confirmed",
    "alternative",
    "refuted",
    "added",
]
FINDING = {"labels": 2, "requests": 1, "tools": {"lib.<i>old</i>": 2}}
SHARE = {"count": 3, "n": 60, "share": 0.05, "low": 0.0171, "high": 0.1371}
KAPPA = {"value": 0.712, "low": 0.6, "high": 0.8}
PAIR = {
    **{"graders": ["<b>ann</b>", "m"], "kinds": ["person", "model"]},
    **{
        "requests": 9,
        "aside": 1,
        "tools": 585,
        "same": 560,
        "kappa": KAPPA,
        "needed": KAPPA,
    },
}
HOLES = {
    **{"requests": 50, "not_graded": 0, "pooled": 900, "unseen": 70, "tau": 0.667},
    **dict.fromkeys(("relevant", "missing", "incomplete"), SHARE),
    "retrievers": {"bm25": {"before": 0.5, "after": 0.4}},
    **{"order_changes": True, "tools": []},
}
FOUND = {
    "kappa": {"method": "by bootstrap", "pairs": [PAIR], "fleiss": None},
    "holes": HOLES,
    "engine": "openai",
    "model": "<b>grader</b>",
    "candidates": {"requests": 6, "mean": 4.25},
    "findings": {"deprecated": FINDING},
    "agreement": {
        **dict(zip(AGREEMENT, (4, 1, 1, 8, 4, 2, 2, 1), strict=True)),
        **{"precision": 0.5, "recall": 0.8},
    },
    "not_graded": [{"query": "q5", "reason": "not-json", "detail": ""}],
    "counts": {"requests": 4, "needed": 5, "alternative": 2, "aside": 1},
    "calls": {},
}


def test_the_page_tells_how_first_labels_and_grades_agree(run):
    assert not text_of(write(run), "#verified")
    labels = (
        Label(query="q0", tool="lib.part.tool3", grade="needed"),
        Label.alternative("q0", "lib.part.tool0", "lib.part.tool3", "as good"),
        Label(query="q1", grade="aside", reason="It has <u>two</u> readings."),
    )
    replace(Bank.load(run / "bank"), labels=labels).save(run / "bank")
    write_json(run / "verify.json", FOUND)
    section = text_of(write(run), "#verified")
    for part in (
        "<b>grader</b> graded 4 requests",
        "needed450.0 %",
        "an alternative to what is needed225.0 %",
        "the first labels have 80.0 %",
        "the tool is deprecated21lib.<i>old</i>",
        "1 request could not be graded",
        "first lib.part.tool0 lib.part.tool1",
        "verified lib.part.tool3 or lib.part.tool0",
        "set aside: It has <u>two</u> readings.",
        "<b>ann</b> and m95850.71 (0.60 to 0.80)",
        "Hole check of 50 test requests: 5.0 % (1.7 to 13.7) of the relevant tools",
        "order of the retrievers changes (Kendall's tau 0.67)",
    ):
        assert part in section


def test_samples_are_as_many_as_asked_for(run):
    for n in (0, 2, 100):
        assert len(parse(write(run, samples=n)).css("article")) == min(n, 6)


def test_the_title_is_the_recipes_name_unless_given(run):
    assert text_of(write(run), "h1") == "things"
    assert text_of(write(run, title="My tools"), "h1") == "My tools"
