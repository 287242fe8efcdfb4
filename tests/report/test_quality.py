"""The figures of the bank's quality on the page."""

from tests.report.conftest import make_bank
from tests.report.page import parse, text_of, write
from toolbank.bank.bank import Bank
from toolbank.bank.records import Ask, Query, Tool


def rows(html):
    section = parse(html).css_first("#quality")
    cells = ([c.text() for c in row.css("th, td")] for row in section.css("tbody tr"))
    return {row[0]: row[1] for row in cells}


def test_the_figures_stand_there_with_what_they_say(run):
    html = write(run)
    found = rows(html)
    # tool0 has six uses, three others two each, one none.
    assert found["tools used at least 5 times"] == "20.0 %"
    assert found["Gini of the uses"] == "0.40"
    assert found["distinct sets of tools"] == "50.0 %"
    assert found["changed by the polish"] == "100.0 %"
    assert found["drafts in steps"] == "100.0 %"
    assert found["what came of"] == "100.0 %"
    assert "How requests begin" in text_of(html, "#quality figcaption")
    assert html == write(run)


def test_kinds_of_asks_have_a_row_each_and_all_is_escaped(run):
    bank = make_bank()
    bank = Bank(
        (*bank.tools, Tool(name="x.<b>yak</b>", summary="<script>")),
        (
            *bank.queries,
            Query(id="z", query="<b>Hi</b> you <i>", tools=("x.<b>yak</b>",)),
        ),
        bank.info,
        (Ask(tool="x.<b>yak</b>", kind="<i>kind</i>", ask="a yak"),),
    )
    bank.save(run / "bank")
    html = write(run)
    [row] = [r for r in parse(html).css("#quality tr") if "<i>kind</i>" in r.text()]
    assert [cell.text() for cell in row.css("td")][1:] == ["1", "0.50", "1.00"]
    assert "<i>" not in html
    assert "<b>Hi" not in html
    assert "<b>yak" not in html


def test_without_requests_it_says_so(run):
    make_bank(0).save(run / "bank")
    assert "no requests to measure" in text_of(write(run), "#quality")
