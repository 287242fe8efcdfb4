"""Parts of a run that are missing or damaged."""

import re
import shutil

import pytest

from tests.report.conftest import compared, make_bank
from tests.report.page import parse, text_of, write
from toolbank.bank.bank import Bank
from toolbank.system.errors import InputError
from toolbank.system.files import write_json, write_text


def test_a_bare_bank_is_enough(run):
    for name in ("metrics.json", "labels.json", "recipe.yaml", "bank/attempts.parquet"):
        (run / name).unlink()
    html = write(run)
    assert "tools5" in text_of(html, ".keys")
    assert len(parse(html).css("article")) == 6
    Bank(make_bank().tools, (), {}).save(run / "bank")
    html = write(run)
    assert "No requests yet over 5 tools" in text_of(html, ".standfirst")
    assert len(parse(html).css(".missing")) == 8
    Bank((), (), {}).save(run / "bank")
    assert "0 tools" in text_of(write(run), ".standfirst")


def test_a_run_without_a_bank_is_told_so(run):
    shutil.rmtree(run / "bank")
    with pytest.raises(InputError, match=r"tools\.parquet"):
        write(run)


@pytest.mark.parametrize(
    "name",
    [
        *("metrics.json", "judge.json", "labels.json", "comparisons.json"),
        *("searches.json", "calibration.json", "bank/asks.json", "hits/bm25.jsonl"),
        "verify.json",
    ],
)
@pytest.mark.parametrize(
    "text", ["[{", "[[]]", '[{"set": "test"}]', "7", "[" * 100_000]
)
def test_a_damaged_file_is_named(run, name, text):
    write_text(run / name, text)
    with pytest.raises(InputError, match=re.escape(name)):
        write(run)


@pytest.mark.parametrize("low", ["x", -3, 10**400, float("nan"), {"a": []}])
def test_a_figure_that_is_none_is_refused(run, low):
    broken = compared("tool2vec", "bm25", "descriptions", 0.1) | {"low": low}
    write_json(run / "comparisons.json", [broken])
    with pytest.raises(InputError, match=r"comparisons\.json"):
        write(run)
