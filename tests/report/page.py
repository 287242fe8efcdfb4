"""Writing a report, and reading the page."""

from selectolax.lexbor import LexborHTMLParser

from toolbank.bank.bank import Bank
from toolbank.llm.journal import Journal
from toolbank.report import ReportConfig
from toolbank.report.report import write_report
from toolbank.requests.judge.judge import judge_bank
from toolbank.requests.judge.judges import JudgeConfig
from toolbank.system.files import write_json


def write(run, **settings):
    return write_report(run, ReportConfig(**settings)).read_text(encoding="utf-8")


def parse(html):
    return LexborHTMLParser(html)


def text_of(html, selector):
    nodes = parse(html).css(selector)
    return " ".join(" ".join(node.text() for node in nodes).split())


def rows_of(node, selector="tbody tr"):
    return [
        [cell.text(strip=True) for cell in row.css("th, td")]
        for row in node.css(selector)
    ]


def add_judge(run):
    with Journal(run / "journal.sqlite") as journal:
        judged = judge_bank(
            Bank.load(run / "bank"), JudgeConfig(), seed=0, journal=journal
        )
    write_json(run / "judge.json", judged.value)
