import pytest

from tests.report.conftest import calls, make_bank
from tests.report.page import parse, rows_of, write
from toolbank.report.report import money, seconds
from toolbank.system.errors import InputError
from toolbank.system.files import write_json

LATENCY = {"p50": 1.25, "p90": 3.0, "p99": 9.0, "max": 130.0}


def section(run, engine="openai", **stages):
    bank = make_bank()
    bank.info["calls"] = stages
    bank.info["generate"]["engine"] = engine
    bank.save(run / "bank")
    return parse(write(run)).css_first("#made")


def told(node):
    return " ".join(node.text().split())


def test_tokens_cost_and_times_are_told_by_stage(run):
    node = section(
        run,
        write=calls(12, (24_000, 1_200), 0.6, {"http-429": 3}, LATENCY),
        polish=calls(8, (6_000, 600), 0.12, {"http-429": 1, "timeout": 1}),
    )
    assert rows_of(node.css_first(".calls")) == [
        [
            *("write", "12", "24,000", "1,200", "$0.60"),
            *("1.2 s", "3 s", "9 s", "130 s"),
        ],
        ["polish", "8", "6,000", "600", "$0.12", *"\u2013" * 4],
        ["together", "20", "30,000", "1,800", "$0.72", "", "", "", ""],
    ]
    text = told(node)
    assert (
        "took 3.3 calls and 5,300 tokens, or $0.12; a thousand of them $120.00" in text
    )
    assert rows_of(node.css("table.funnel")[-1]) == [
        ["http-429", "4", "", "16.0 %"],
        ["timeout", "1", "", "4.0 %"],
    ]


def test_a_cost_that_is_not_known_is_a_dash_and_says_what_to_do(run):
    text = told(section(run, write=calls(2, (10, 10)), polish=calls(1, (5, 5), 0.1)))
    assert "\u2013" in text
    assert "generate.price" in text
    assert "a thousand of them" not in text


def judge(run, dollars=None):
    judged = {"judge": "j", "heuristic": False, "against": "draft", "n": 0}
    judged |= {"method": "", "criteria": {}}
    judged["calls"] = {"judge": calls(600, (6_000, 60), dollars)}
    write_json(run / "judge.json", judged)


def test_the_price_that_is_missing_is_named_with_its_section(run):
    judge(run)
    for price, named in ((0.6, "Set judge.price"), (None, "Set generate.price and ")):
        text = told(section(run, write=calls(12, (600, 0), price)))
        assert named in text and "judge.price in the recipe" in text


def test_the_judges_calls_stand_beside_and_are_not_those_of_a_request(run):
    judge(run, 1.0)
    node = section(run, write=calls(12, (600, 0), 0.6))
    assert rows_of(node.css_first(".calls"))[1][:5] == [
        *("judge", "600", "6,000", "60", "$1.00")
    ]
    assert "took 2.0 calls and 100 tokens, or $0.10;" in told(node)


@pytest.mark.parametrize(
    ("engine", "said"),
    [("rules", "no model was called"), ("openai", "no tokens were told")],
)
def test_replies_without_tokens_have_no_table(run, engine, said):
    node = section(run, engine, write=calls(12), polish=calls(8))
    assert not node.css(".calls")
    assert f"20 replies of the engine {engine}; {said}." in told(node)


@pytest.mark.parametrize("wrong", [None, [], calls(1) | {"replies": -1}])
def test_damaged_calls_are_named_with_their_file(run, wrong):
    with pytest.raises(InputError, match=r"bank\.json"):
        section(run, write=wrong)


def test_small_sums_keep_two_digits_and_times_fit_a_column():
    assert [money(x) for x in (None, 0.0, 0.00123, 0.05, 4.0, 1234.5)] == [
        *("\u2013", "$0.00", "$0.0012", "$0.050", "$4.00", "$1,234.50")
    ]
    assert [seconds(x) for x in (None, 0.036, 2.44, 9.94, 9.96, 99.7, 130.2)] == [
        *("\u2013", "0.036 s", "2.4 s", "9.9 s", "10 s", "100 s", "130 s")
    ]
