"""The page as a whole."""

from tests.report.page import add_judge, parse, text_of, write
from toolbank.report import ReportConfig
from toolbank.report.report import write_report


def test_same_files_same_bytes(run):
    add_judge(run)
    first = write_report(run, ReportConfig()).read_bytes()
    assert write_report(run, ReportConfig()).read_bytes() == first


def test_samples_are_as_many_as_asked_for(run):
    for n in (0, 2, 100):
        assert len(parse(write(run, samples=n)).css("article")) == min(n, 6)


def test_the_title_is_the_recipes_name_unless_given(run):
    assert text_of(write(run), "h1") == "things"
    assert text_of(write(run, title="My tools"), "h1") == "My tools"
