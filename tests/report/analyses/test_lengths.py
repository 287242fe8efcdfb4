from tests.report.analyses.found import found
from toolbank.report.analyses import split_lengths


def test_a_request_has_failed_where_one_of_its_tools_is_missed():
    rows = [
        found("ab", "xab", query="three words here"),
        found("ab", "axy", query="one  and\ntwo"),
        found("a", "", query="hm"),
    ]
    assert split_lengths(rows) == ([3], [3, 1])
