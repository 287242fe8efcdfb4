"""Which retriever a search takes, by who wrote the requests that it is chosen on."""

import pytest

from tests.world import write_recipe
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.evaluation.figures import Figure, write_figures
from toolbank.requests.engines import RECORDED, RULES
from toolbank.retrievers.llm_settings import DecompositionConfig, LlmConfig
from toolbank.retrievers.settings import (
    Bm25Config,
    DescriptionsConfig,
    FusionConfig,
    NearestConfig,
    Tool2VecConfig,
)
from toolbank.run.advice import warn_of_setbacks
from toolbank.run.choice import choose_retriever
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import load_recipe
from toolbank.run.result import describe_result
from toolbank.run.run import run_recipe
from toolbank.system.files import write_json

BY_WORDS = [Bm25Config(), NearestConfig(by="bm25", name="votes")]
ALL = [
    *BY_WORDS,
    DecompositionConfig(first_stage="bm25"),
    Tool2VecConfig(),
    DescriptionsConfig(),
]
FOUND = (0.706, 0.7, 0.69, 0.639, 0.6)


@pytest.mark.parametrize(
    ("engine", "configs", "label", "percent"),
    [
        (RULES, ALL, "tool2vec", "63.9"),
        (RECORDED, ALL, "bm25", "70.6"),
        (RULES, BY_WORDS, "bm25", "70.6"),
    ],
)
def test_copied_wording_chooses_no_lexical(tmp_path, engine, configs, label, percent):
    run = RunFolder(tmp_path)
    write_json(run.bank / "bank.json", {"generate": {"engine": engine.name}})
    figures = [
        Figure(config.label, "validation", "recall", 5, value, None, None, 48)
        for config, value in zip(configs, FOUND, strict=False)
    ]
    write_figures(run.validation, figures)
    choice = choose_retriever(run, configs)
    assert choice.label == label
    assert percent in choice.why
    assert ("(bm25, votes, decomposition)" in choice.why) == (label == "tool2vec")


@pytest.mark.parametrize("beside", [("bm25",), ("votes", "bm25")])
def test_without_validation_requests_a_search_uses_the_fusion(tmp_path, beside):
    fusion = FusionConfig(name="both", first_stage="tool2vec", beside=beside)
    choice = choose_retriever(RunFolder(tmp_path), [*ALL, fusion])
    assert choice.label == "both"
    assert "no validation requests" in choice.why and "tool2vec" in choice.why
    # One that calls a language model is no default.
    llm = LlmConfig(first_stage="bm25", replies=tmp_path / "replies.jsonl")
    fusion = FusionConfig(first_stage="tool2vec", beside=("llm",))
    choice = choose_retriever(RunFolder(tmp_path), [*ALL, llm, fusion])
    assert choice.label == "tool2vec"


def bank_of(n_tools, per_tool, n_used):
    tools = tuple(Tool(name=f"t{i}", kind="function") for i in range(n_tools))
    train = [
        Query(id=f"{i}-{j}", query=f"do {i} by {j}", tools=(f"t{i}",), split="train")
        for i in range(n_used)
        for j in range(per_tool)
    ]
    asked = [
        Query(id=f"v{i}", query=f"{i}!", tools=(f"t{i}",), split="validation")
        for i in range(n_used)
    ]
    return Bank(tools, (*train, *asked))


def warn(bank, **values):
    n = len(bank.split("validation"))
    figures = [
        Figure(label, "validation", "recall", 5, value, value - 0.1, value + 0.1, n)
        for label, value in values.items()
    ]
    return " ".join(warn_of_setbacks(figures, ALL, bank, 0))


@pytest.mark.parametrize(
    ("bank", "cause"),
    [
        (bank_of(150, 1, 120), "120 of the 120 tools that train requests use"),
        (bank_of(300, 2, 60), "240 of 300 tools have no train request"),
        (bank_of(10, 3, 10), "only 30 train requests"),
    ],
)
def test_a_method_below_one_that_learns_nothing_is_named_with_the_cause(bank, cause):
    told = warn(bank, bm25=0.7, descriptions=0.8, tool2vec=0.16)
    assert "tool2vec (16.0) finds less than descriptions (80.0)" in told
    assert cause in told
    assert "by chance" not in told


def test_a_small_difference_can_be_chance_and_a_method_that_finds_more_is_not_named():
    bank = bank_of(20, 1, 15)
    told = warn(bank, descriptions=0.85, tool2vec=0.8)
    assert "tool2vec (80.0) finds less" in told and "by chance" in told
    assert not warn(bank, bm25=0.7, descriptions=0.6, tool2vec=0.8)


def test_the_end_of_a_run_says_that_requests_are_of_the_references_own_words(tmp_path):
    path = write_recipe(tmp_path, engine="rules", queries=12)
    result = run_recipe(load_recipe(path), tmp_path / "run", until="generate")
    told = " ".join(describe_result(result).split())
    assert "The requests copy the wording of the reference" in told
    assert "evaluate.on" in told
