"""What the page says of the judge."""

import json

from tests.report.page import add_judge, text_of, write
from toolbank.system.files import write_json


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
