"""What the page says of verified labels."""

from dataclasses import replace

from tests.report.page import text_of, write
from toolbank.bank.bank import Bank, Label
from toolbank.system.files import write_json

FOUND = {
    "engine": "openai",
    "model": "<b>grader</b>",
    "prompt_hash": "0",
    "candidates": {"requests": 6, "mean": 4.25},
    "findings": {
        "deprecated": {"labels": 2, "requests": 1, "tools": {"lib.<i>old</i>": 2}}
    },
    "agreement": {
        "requests": 4,
        "aside": 1,
        "same": 1,
        "labels": 8,
        "confirmed": 4,
        "alternative": 2,
        "refuted": 2,
        "added": 1,
        "precision": 0.5,
        "recall": 0.8,
    },
    "not_graded": [{"query": "q5", "reason": "not-json", "detail": ""}],
    "counts": {"requests": 4, "needed": 5, "alternative": 2, "aside": 1},
    "calls": {},
}


def verify(run, labels=()):
    bank = replace(Bank.load(run / "bank"), labels=tuple(labels))
    bank.save(run / "bank")
    write_json(run / "verify.json", FOUND)


def test_the_page_tells_how_first_labels_and_grades_agree(run):
    verify(run)
    section = text_of(write(run), "#verified")
    assert "<b>grader</b> graded 4 requests again" in section
    assert "needed450.0 %" in section
    assert "an alternative to what is needed225.0 %" in section
    assert "of what is needed the first labels have 80.0 %" in section
    assert "the tool is deprecated21lib.<i>old</i>" in section
    assert "1 request could not be graded" in section


def test_requests_whose_labels_changed_are_shown_with_both(run):
    verify(
        run,
        [
            Label(query="q0", tool="lib.part.tool3", grade="needed"),
            Label.alternative("q0", "lib.part.tool0", "lib.part.tool3", "as good"),
            Label(query="q1", grade="aside", reason="It has <u>two</u> readings."),
        ],
    )
    section = text_of(write(run), "#verified")
    assert "first lib.part.tool0 lib.part.tool1" in section
    assert "verified lib.part.tool3 or lib.part.tool0" in section
    assert "set aside: It has <u>two</u> readings." in section


def test_a_run_that_verified_nothing_has_no_such_section(run):
    assert not text_of(write(run), "#verified")
