import pytest

from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.retrievers.llm_settings import (
    DecomposeConfig,
    DecompositionConfig,
    LlmConfig,
)
from toolbank.retrievers.settings import (
    Bm25Config,
    NnnConfig,
    ProtipConfig,
    RefinerConfig,
    Tool2VecConfig,
)
from toolbank.system.errors import InputError

ON_WORDS = {"first_stage": "bm25"}
ASKED = {"engine": "nowhere", "model": "m", "replies": "never.sqlite"}
SPLIT = DecompositionConfig(**ON_WORDS, decompose=DecomposeConfig(**ASKED))


def unchanged(bank):
    return bank


def without_words(bank):
    return Bank((Tool(name="?"),))


def without_queries(bank):
    return Bank(bank.tools)


def without_order(bank):
    return Bank(bank.tools, bank.queries, {"ordered": False})


@pytest.mark.parametrize(
    ("config", "stage", "change", "named"),
    [
        (Bm25Config(), None, without_words, "Describe the tools"),
        (NnnConfig(**ON_WORDS), Bm25Config(), unchanged, "vectors of tools, and bm25"),
        (RefinerConfig(), Tool2VecConfig(), without_queries, "no train queries"),
        (ProtipConfig(), None, without_queries, "needs train queries"),
        (ProtipConfig(), None, without_order, "`ordered: false`"),
        (SPLIT, Bm25Config(), unchanged, "nowhere"),
        (LlmConfig(**ON_WORDS, **ASKED), Bm25Config(), unchanged, "nowhere"),
    ],
    ids=lambda value: getattr(value, "label", None),
)
def test_what_can_not_be_fitted_is_refused(bank, config, stage, change, named):
    stages = [fit_one(stage, bank)] if stage else []
    with pytest.raises(InputError, match=named):
        fit_one(config, change(bank), *stages)
