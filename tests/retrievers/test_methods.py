from importlib import import_module

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.retrievers.small_methods import (
    CONFIGS,
    LABELS,
    assert_same_hits,
    fit_one,
    make_cases,
)
from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.retrievers import RETRIEVERS, create_retriever, load_retriever
from toolbank.retrievers.base import ALONE
from toolbank.retrievers.bm25 import Bm25Retriever
from toolbank.retrievers.settings import Bm25Config
from toolbank.retrievers.unseen import DescriptionOdds
from toolbank.system.errors import InputError
from toolbank.testing.retrievers import (
    CHECKS,
    RetrieverCase,
    check_adding_tools,
    check_saving,
    check_search,
    check_unfitted,
    check_without_train,
)

BELL = Tool(name="door.bell", kind="function", summary="Ring the bell of a house.")


@pytest.fixture(scope="module")
def asked_cases(asked, tmp_path_factory, reranker):
    """Every method on the small bank with asks, and no queries."""
    bank = Bank(asked.tools, info=asked.info, asks=asked.asks)
    return make_cases(bank, tmp_path_factory.mktemp("asked"), reranker)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("label", LABELS)
def test_own_methods(cases, label, check):
    check(cases[label])


def test_every_own_method_is_checked(cases):
    assert {case.config.type for case in cases.values()} == {*RETRIEVERS.own}


class Broken(Bm25Retriever):
    def search(self, queries, k):
        indices, scores = super().search(queries, k)
        return indices[:, ::-1], scores

    def extend(self, tools):
        found = bool(self.documents)
        super().extend(
            [Tool(name="", kind="function")] * len(tools) if found else tools
        )

    def save_parts(self, folder):
        (folder / "index.pkl").write_bytes(b"")


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (check_search, "hits come before"),
        (check_saving, "save to safetensors"),
        (check_adding_tools, "among the hits"),
    ],
)
def test_what_a_method_does_wrong_is_told(cases, monkeypatch, check, wrong):
    monkeypatch.setattr("toolbank.retrievers.bm25.Bm25Retriever", Broken)
    case = RetrieverCase(cases["bm25"].kind, Bm25Config(), cases["bm25"].bank)
    with pytest.raises((AssertionError, InputError), match=wrong):
        check(case)
    check_unfitted(case)


class Peeking(Bm25Retriever):
    def fit(self, bank, context=ALONE):
        asked = [
            tool.model_copy(update={"summary": query.query})
            for tool in bank.tools
            for query in bank.split("train")
            if tool.name in query.tools
        ]
        named = {tool.name: tool for tool in (*bank.tools, *asked)}
        super().fit(Bank(tuple(named.values())), context)


def test_a_method_that_reads_queries_it_denies_is_told(cases, monkeypatch):
    monkeypatch.setattr("toolbank.retrievers.bm25.Bm25Retriever", Peeking)
    case = RetrieverCase(cases["bm25"].kind, Bm25Config(), cases["bm25"].bank)
    with pytest.raises(AssertionError, match="without train queries, same hits"):
        check_without_train(case)


LEARNS_AT_ONCE = ("bm25-requests", "nearest", "nearest-bm25", "tool2vec")


def find_rank(retriever, request):
    """Where the last tool stands among the hits, from 0; after all others if it is none."""
    hits = retriever.search(request, 7)[0][0].tolist()
    return hits.index(6) if 6 in hits else 7


@pytest.mark.parametrize("label", LABELS)
def test_asks_alone_are_enough_to_fit(asked_cases, label):
    assert asked_cases[label].fitted.search(["open the irrigation"], 1)[0] >= 0


@pytest.mark.parametrize("label", LEARNS_AT_ONCE)
def test_a_tool_that_no_query_uses_is_found_by_its_asks(asked, label):
    fitted = fit_one(CONFIGS[label], asked)
    (best,) = fitted.search(["hush, the children sleep"], 1)[0][0]
    assert fitted.tools[best] == "music.stop"


@pytest.mark.parametrize("label", LABELS)
def test_an_added_tool_is_found_by_its_description_and_by_asks(cases, label, tmp_path):
    cases[label].fitted.save(tmp_path / "saved")
    fitted = load_retriever(tmp_path / "saved")
    grown = fitted.add_tools([BELL], {"door.bell": ["someone is at the gate"]})
    without = fitted.add_tools([BELL])
    # The four tools of the four train queries may stand first for any request.
    by_votes = label in ("nearest", "mlc", "mlc-frozen")
    rank = find_rank(without, ["ring the bell of that house"])
    assert rank <= (4 if by_votes else 0)
    request = ["someone is at the gate"]
    ranks = [find_rank(one, request) for one in (grown, without)]
    assert ranks[0] <= ranks[1]
    if label in LEARNS_AT_ONCE:
        assert ranks[0] == 0
    grown.save(tmp_path / "grown")
    again = load_retriever(tmp_path / "grown").search(request, 7)
    assert_same_hits(again, grown.search(request, 7))
    with pytest.raises(InputError, match=r"music\.play is none of the tools"):
        fitted.add_tools([BELL], {"music.play": ["play something"]})


@pytest.mark.parametrize("label", CONFIGS)
def test_hits_of_a_train_query_are_those_of_a_fit_without_it(asked, label, monkeypatch):
    # What places unseen tools is of all queries.
    monkeypatch.setattr(
        DescriptionOdds, "log_odds", lambda *given: np.ones((1, len(given[-1])))
    )
    monkeypatch.setattr(
        DescriptionOdds,
        "fit_scale",
        lambda self, *_: setattr(self, "scale", np.array([1.2, 0.1])),
    )
    config = CONFIGS[label].model_copy(update={"centre": False})
    fitted = fit_one(config, asked)
    indices, scores = fitted.search_train(asked, 6)
    for row, query in enumerate(asked.train_queries):
        blind = fit_one(config, asked.without_train_queries([row]))
        expected, values = blind.search([query.query], 6)
        if label != "nearest-bm25":
            np.testing.assert_allclose(scores[row], values[0], atol=2e-6)
        np.testing.assert_array_equal(indices[row], expected[0])


@pytest.mark.parametrize("name", ["descriptions", "tool2vec", "nearest", "mlc"])
def test_an_encoder_of_another_width_is_told(cases, tmp_path, name):
    cases[name].fitted.save(tmp_path)
    for path in tmp_path.rglob("vectors.safetensors"):
        if path.parent.name == "words":
            continue
        narrow = {
            key: array[..., :16] if array.dtype == np.float32 else array
            for key, array in load_file(path).items()
        }
        save_file({key: np.ascontiguousarray(a) for key, a in narrow.items()}, path)
    loaded = load_retriever(tmp_path)
    with pytest.raises(InputError, match=r"gives \d+ numbers, the saved .* have 16"):
        loaded.search(["anything"], 1)
    with pytest.raises(InputError, match=r"gives \d+ numbers"):
        loaded.add_tools([Tool(name="new", kind="function")])


DAMAGES = [
    ("bm25", "documents.json", lambda _: '["one"]', "documents.json"),
    ("nearest-bm25", "documents.json", lambda _: "[1, 2, 3, 4, 5, 6]", "documents"),
    ("bm25", "config.json", lambda t: t.replace('"bm25"', '"oracle"'), "'oracle'"),
    ("bm25", "config.json", lambda t: t.replace('"layout": 2', '"layout": 1'), "train"),
    ("bm25", "config.json", lambda t: t.replace("false", '"often"'), "requests"),
]


@pytest.mark.parametrize(("label", "file", "damage", "named"), DAMAGES)
def test_a_damaged_method_is_refused(cases, tmp_path, label, file, damage, named):
    cases[label].fitted.save(tmp_path)
    path = min(tmp_path.rglob(file))
    path.write_text(damage(path.read_text()))
    with pytest.raises(InputError, match=named):
        load_retriever(tmp_path)


KIND = """
    from typing import Literal

    from toolbank.retrievers.bm25 import Bm25Retriever
    from toolbank.retrievers.kind import RetrieverKind
    from toolbank.retrievers.settings import Bm25Config


    class Config(Bm25Config):
        type: Literal["odd"] = "odd"


    class Odd(Bm25Retriever):
        pass


    KIND = RetrieverKind(Config, "odd_method:Odd")
"""


def test_a_retriever_of_another_package_is_found(install_package, bank):
    install_package("toolbank.retrievers", "odd_method", KIND, odd="KIND")
    retriever = create_retriever(import_module("odd_method").Config())
    retriever.fit(bank)
    (best,) = retriever.search(["start a song"], 1)[0][0]
    assert retriever.tools[best] == "music.play"
