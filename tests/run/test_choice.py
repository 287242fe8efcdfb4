"""Which retriever a search takes, by who wrote the requests that it is chosen on."""

from tests.world import write_recipe
from toolbank.evaluation.figures import Figure, write_figures
from toolbank.generate.writers.recorded import KIND as RECORDED
from toolbank.generate.writers.rules.kind import KIND as RULES
from toolbank.recipe import load_recipe
from toolbank.retrievers.bm25.config import Bm25Config
from toolbank.retrievers.decomposition.config import DecompositionConfig
from toolbank.retrievers.descriptions.config import DescriptionsConfig
from toolbank.retrievers.nearest.config import NearestConfig
from toolbank.retrievers.tool2vec.config import Tool2VecConfig
from toolbank.run.choice import choose_retriever
from toolbank.run.folder import RunFolder
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


def choose(folder, engine, configs):
    run = RunFolder(folder)
    run.bank.mkdir()
    write_json(run.bank / "bank.json", {"generate": {"engine": engine}})
    figures = [
        Figure(config.label, "validation", "recall", 5, value, None, None, 48)
        for config, value in zip(configs, FOUND, strict=False)
    ]
    write_figures(run.validation, figures)
    return choose_retriever(run, configs)


def test_requests_of_the_references_own_words_choose_none_that_finds_by_words(tmp_path):
    choice = choose(tmp_path, RULES.name, ALL)
    assert choice.label == "tool2vec"
    assert "63.9" in choice.why
    assert "by words alone (bm25, votes, decomposition) are left out" in choice.why
    assert "the requests are of the reference's own words" in choice.why


def test_other_requests_choose_whatever_finds_most(tmp_path):
    choice = choose(tmp_path, RECORDED.name, ALL)
    assert choice.label == "bm25"
    assert "left out" not in choice.why


def test_where_all_find_by_words_one_of_them_is_chosen(tmp_path):
    choice = choose(tmp_path, RULES.name, BY_WORDS)
    assert choice.label == "bm25"
    assert "left out" not in choice.why


def test_the_end_of_a_run_says_that_requests_are_of_the_references_own_words(tmp_path):
    path = write_recipe(tmp_path, engine="rules", queries=12)
    result = run_recipe(load_recipe(path), tmp_path / "run", until="generate")
    told = " ".join(describe_result(result).split())
    assert "The requests are of the reference's own words" in told
    assert "evaluate.on" in told
