"""Parts of a run that are missing or damaged."""

import copy
import json
import shutil

import pytest

from tests.report.conftest import compared, make_bank
from tests.report.page import add_judge, parse, text_of, write
from toolbank.bank.bank import Bank
from toolbank.report.content import read_content
from toolbank.system.errors import InputError
from toolbank.system.files import write_json, write_text


def test_a_damaged_file_of_hits_is_named(run):
    (run / "hits" / "bm25.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(InputError, match=r"bm25\.jsonl"):
        write(run)


@pytest.mark.parametrize("part", ["metrics.json", "labels.json", "recipe.yaml"])
def test_a_missing_part_leaves_the_rest(run, part):
    (run / part).unlink()
    html = write(run)
    assert "tools5" in text_of(html, ".keys")
    assert len(parse(html).css("article")) == 6


def test_a_bare_bank_is_enough(run):
    for name in ("metrics.json", "labels.json", "recipe.yaml", "bank/attempts.parquet"):
        (run / name).unlink()
    Bank(make_bank().tools, (), {}).save(run / "bank")
    html = write(run)
    assert "No requests yet over 5 tools" in text_of(html, ".standfirst")
    assert len(parse(html).css(".missing")) == 7


def test_an_empty_bank_is_no_error(run):
    Bank((), (), {}).save(run / "bank")
    assert "0 tools" in text_of(write(run), ".standfirst")


def test_a_run_without_a_bank_is_told_so(run):
    shutil.rmtree(run / "bank")
    with pytest.raises(InputError, match=r"tools\.parquet"):
        write(run)


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else ()
    for key, part in enumerate(value) if isinstance(value, list) else items:
        yield from places(part, (*path, key))


def changed(value, path, new):
    """The value with a new one at a place; left out there where the new one is `...`."""
    if not path:
        return new
    value = copy.deepcopy(value)
    part = value
    for key in path[:-1]:
        part = part[key]
    if new is ...:
        del part[path[-1]]
    else:
        part[path[-1]] = new
    return value


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("metrics.json", marks=pytest.mark.slow),
        pytest.param("judge.json", marks=pytest.mark.slow),
        "labels.json",
    ],
)
def test_a_damaged_part_is_named_or_does_no_harm(run, name):
    add_judge(run)
    whole = json.loads((run / name).read_text())
    whole = whole[:2] if name == "metrics.json" else whole
    if name == "judge.json":
        del whole["pairs"], whole["criteria"]["fluency"]
    refused = 0
    for path in places(whole):
        for new in (..., None, "x", -3, 10**400, float("nan"), {"a": []}):
            damaged = {} if not path and new is ... else changed(whole, path, new)
            write_text(run / name, json.dumps(damaged))
            try:
                read_content(run)
            except InputError as error:
                assert name in str(error)
                refused += 1
            else:
                write(run)
    assert refused > 20
    write_text(run / name, "[{")
    with pytest.raises(InputError, match=name):
        write(run)


def test_damaged_comparisons_are_refused(run):
    broken = compared("tool2vec", "bm25", "descriptions", 0.1) | {"low": "x"}
    write_json(run / "comparisons.json", [broken])
    with pytest.raises(InputError, match=r"comparisons\.json"):
        write(run)
