"""Threads that share a finder: no search fails, and no change is lost."""

import pytest

from benchmarks.shared_finder import share
from tests.retrievers.small_methods import configure, encoder_for, fit
from toolbank.bank.bank import Bank
from toolbank.bank.records import Query, Tool
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import Bm25Config, NearestConfig
from toolbank.search.finder import Finder

TOOLS = tuple(
    Tool(name=f"{room}.{what}", summary=f"Do the {what} thing of the {room}.")
    for room in ("garden", "house", "car")
    for what in ("water", "light", "door")
)
QUERIES = tuple(
    Query(id=str(n), query=f"my {n} {tool.name}", tools=(tool.name,), split="train")
    for n, tool in enumerate(TOOLS[:6])
)
LABELS = ("tool2vec", "descriptions", "mlc", "mlc-frozen", "refiner", "protip", "nnn")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    bank = Bank(TOOLS, QUERIES)
    configs = configure(encoder_for(tmp_path_factory.mktemp("encoder") / "tiny", bank))
    made = {label: fit(label, configs, bank) for label in LABELS}
    for config in (Bm25Config(), NearestConfig(encoder=configs["mlc"].encoder)):
        made[config.label] = create_retriever(config)
        made[config.label].fit(bank)
    return made


QUICK = ("bm25", "tool2vec", "mlc")


@pytest.mark.parametrize(
    "label",
    [
        pytest.param(label, marks=() if label in QUICK else pytest.mark.slow)
        for label in (*LABELS, "bm25", "nearest")
    ],
)
def test_twenty_threads_share_a_finder_and_lose_nothing(fitted, label):
    finder = Finder(fitted[label], TOOLS)
    counts, errors = share(finder, threads=20, goes_on=lambda done: done < 15)
    assert not errors
    assert counts["lost"] == 0
    assert counts["searches"] > 200
    assert counts["added"] > counts["removed"] > 0
