"""An SDK of three functions gets to its report, as one of a thousand does."""

import pytest
import yaml

from tests.tiny_models import tiny_encoder
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.files import read_json

NOUNS = ("order", "parcel", "invoice", "letter", "coupon", "price")
FUNCTION = '''
def {verb}_{noun}(number):
    """{verb} the {noun} of a customer.

    Parameters
    ----------
    number : int
        Number of the {noun}.
    """
'''


@pytest.mark.parametrize(
    ("tools", "shares"),
    [
        (2, {1: 1, 2: 1}),
        (12, None),
        *(
            pytest.param(tools, shares, marks=pytest.mark.slow)
            for tools in (2, 3, 5)
            for shares in (None, {1: 1, 2: 1})
        ),
    ],
)
def test_a_tiny_bank_is_run_to_its_report(tmp_path, monkeypatch, tools, shares):
    names = [(verb, noun) for verb in ("Find", "List") for noun in NOUNS][:tools]
    code = "".join(FUNCTION.format(verb=verb, noun=noun) for verb, noun in names)
    (tmp_path / f"tiny_sdk_{tools}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    encoder = {"model": str(tiny_encoder(tmp_path / "encoder"))}
    built = ("descriptions", "nearest", "tool2vec")
    recipe = {
        "name": "tiny",
        "sources": [{"type": "python", "package": f"tiny_sdk_{tools}"}],
        "generate": {"engine": "rules", "queries": 20, "tools_per_query": shares},
        "retrievers": [
            {"type": "bm25"},
            *({"type": kind, "encoder": encoder} for kind in built),
            {"type": "nnn"},
            {"type": "decomposition"},
        ],
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(recipe))
    result = run_recipe(load_recipe(str(path)), tmp_path / "out")
    assert not result.todo
    assert result.folder.report.is_file()
    info = read_json(result.folder.bank / "bank.json")
    assert info["splits"]["test"] > 0
    if shares:
        assert info["counts"]["tools_per_query"]["1"]["accepted"] > 0
