"""Checks that every retriever has to pass, those of other packages included.

In the tests of a package that brings one:

    import pytest
    from toolbank.testing.retrievers import CHECKS, RetrieverCase

    CASE = RetrieverCase(KIND, MyConfig(), my_small_bank())

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_retriever(check):
        check(CASE)

The package has to be installed, so that its entry point is found. A check that fails raises an
AssertionError that names the requirement.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits
from toolbank.bank.records import Tool
from toolbank.retrievers import RETRIEVERS, create_retriever, load_retriever
from toolbank.retrievers.base import FitContext, Retriever
from toolbank.retrievers.dense import DenseRetriever
from toolbank.retrievers.kind import RetrieverConfig, RetrieverKind
from toolbank.retrievers.stored import ARRAYS
from toolbank.system.errors import InputError
from toolbank.testing import check_model

REQUESTS = ("soak the plants", "", "refund order 17", "¿dónde está?")
"""What is searched for; an encoder made for the tests should know the words."""

_PICKLES = {".bin", ".pkl", ".pickle", ".pt", ".npy", ".npz"}
_NEW = Tool(name="door.bell", kind="function", summary="Ring the bell of a house.")
# Of scores after a training, whose sums may be taken in another order.
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class RetrieverCase:
    """A retriever under test, and the small bank that it is fitted on.

    The bank should have some four queries or more to train on and one to test with, and no tool
    called "door.bell". `built_on` are the configurations of the retrievers that it needs, each
    after those that it needs itself.
    """

    kind: RetrieverKind
    config: RetrieverConfig
    bank: Bank
    built_on: tuple[RetrieverConfig, ...] = ()

    @cached_property
    def fitted(self) -> Retriever:
        """The retriever, fitted once; checks do not change it."""
        return self.fit(self.bank)

    @cached_property
    def hits(self) -> Hits:
        """The hits of `fitted` for `REQUESTS`, among all tools."""
        return self.fitted.search(REQUESTS, len(self.bank.tools))

    def fit(self, bank: Bank) -> Retriever:
        """A retriever that is fitted, with all that it is built on, on a bank."""
        fitted: dict[str, Retriever] = {}
        for config in (*self.built_on, self.config):
            fitted[config.label] = create_retriever(config)
            fitted[config.label].fit(bank, FitContext(fitted=dict(fitted)))
        return fitted[self.config.label]


def check_settings(case: RetrieverCase) -> None:
    """The configuration is of the method's own model, which refuses unknown keys."""
    check_model(case.config, case.kind.config)
    found = RETRIEVERS.load(case.config.type)
    assert found == case.kind, "the kind is found by the `type` of its settings"


def check_traits(case: RetrieverCase) -> None:
    """The traits of the configuration are true."""
    config, needed = case.config, case.config.needs_vectors
    assert not needed or needed in config.needs, "needs_vectors names one of needs"
    learns = config.learns_from
    assert not learns or learns in config.needs, "learns_from names one of needs"
    is_dense = isinstance(case.fitted, DenseRetriever)
    assert config.has_vectors == is_dense, "has_vectors says if it is a DenseRetriever"
    assert set(case.fitted.built_on) == set(config.needs), "it is built on its needs"


def check_search(case: RetrieverCase) -> None:
    """Hits are tools in falling order; a row with fewer is filled up."""
    n_tools = len(case.bank.tools)
    indices, scores = case.fitted.search(REQUESTS, n_tools + 50)
    shape = (len(REQUESTS), n_tools)
    assert case.fitted.tools == case.bank.tool_names, "tools are the bank's"
    assert indices.shape == scores.shape == shape, "min(k, n_tools) hits a request"
    assert indices.dtype == np.int64, "indices are int64"
    assert scores.dtype == np.float32, "scores are float32"
    _check_hits((indices, scores), n_tools)


def check_order_of_tools(case: RetrieverCase) -> None:
    """The order in which the tools are listed makes no difference, ties included.

    Some of the tools read alike. What is trained on the tools in another order is another
    model, so it is one model that is held against itself.
    """
    names = [f"{_NEW.name}.{letter}" for letter in "abcdef"]
    twins = [_NEW.model_copy(update={"name": name}) for name in names]
    grown = case.fitted.add_tools(twins)
    is_trained = any(c.trainings for c in (*case.built_on, case.config))
    for seed in range(3):
        places = Random(seed).sample(range(len(grown.tools)), len(grown.tools))
        _assert_same_by_name(grown.pick_tools(places), grown)
        if not is_trained:
            tools = tuple(Random(seed).sample(case.bank.tools, len(case.bank.tools)))
            other = case.fit(replace(case.bank, tools=tools))
            _assert_same_by_name(other, case.fitted)


def check_parts_of_a_search(case: RetrieverCase) -> None:
    """The hits of a request depend neither on other requests nor on k."""
    n_tools, together = len(case.bank.tools), case.hits
    few = case.fitted.search(REQUESTS, 2)
    first = together[0][:, :2], together[1][:, :2]
    _assert_same(few, first, "fewer hits are the first of more")
    for row, request in enumerate(REQUESTS):
        (alone,), (scores,) = case.fitted.search([request], n_tools)
        assert (alone == together[0][row]).all(), "other requests change no hit"
        near = np.allclose(scores, together[1][row], atol=_TOLERANCE)
        assert near, "other requests change no score"
    indices, scores = case.fitted.search([], 3)
    assert indices.shape == scores.shape == (0, min(3, n_tools)), "none gives none"


def check_fit(case: RetrieverCase) -> None:
    """The same seed gives the same hits, and queries of split "test" are not learnt from."""
    blind = case.fit(
        Bank(
            case.bank.tools,
            (*case.bank.split("train"), *case.bank.split("validation")),
            case.bank.info,
            case.bank.asks,
        )
    )
    _, scores = blind.search(REQUESTS, len(case.bank.tools))
    assert np.allclose(scores, case.hits[1], atol=_TOLERANCE), (
        "a second fit without the queries of split test gives other scores"
    )


def check_without_train(case: RetrieverCase) -> None:
    """A retriever that needs no train queries finds the same without them."""
    if any(config.needs_queries for config in (*case.built_on, case.config)):
        return
    bare = case.fit(
        Bank(case.bank.tools, case.bank.split("validation"), case.bank.info)
    )
    found = bare.search(REQUESTS, len(case.bank.tools))
    _assert_same(found, case.hits, "without train queries, same hits")


def check_saving(case: RetrieverCase) -> None:
    """Loaded from another place it finds the same; saved twice, it has the same bytes."""
    with _folder() as folder:
        case.fitted.save(folder / "first")
        (folder / "first").rename(folder / "moved")
        case.fitted.save(folder / "second")
        for path in _files(folder / "moved"):
            assert path.suffix not in _PICKLES, f"{path.name}: save to safetensors"
            copy = folder / "second" / path.relative_to(folder / "moved")
            same = path.read_bytes() == copy.read_bytes()
            assert same, f"{path.name}: another content when it is saved again"
        load_retriever(folder / "moved").save(folder / "again")
        for name in ("moved", "again"):
            loaded = load_retriever(folder / name)
            assert type(loaded) is type(case.fitted), "it is loaded as the same class"
            assert loaded.config == case.fitted.config, "it is loaded with its settings"
            assert loaded.tools == case.fitted.tools, "it is loaded with its tools"
            assert loaded.card == case.fitted.card, "it is loaded with its card"
            hits = loaded.search(REQUESTS, len(loaded.tools))
            _assert_same(hits, case.hits, "loaded, same hits")
        (folder / "moved" / "tools.json").write_text('["only.one"]', encoding="utf-8")
        _assert_damage_refused(folder / "moved", "tools.json of other tools")


def check_damage(case: RetrieverCase) -> None:
    """A damaged or missing file is refused, or makes no difference."""
    n_tools = len(case.bank.tools)
    with _folder() as folder:
        case.fitted.save(folder)
        for path in _files(folder):
            content = path.read_bytes()
            for damaged in (content[: len(content) // 2], b"[1, 2]", None):
                if damaged is None:
                    path.unlink()
                else:
                    path.write_bytes(damaged)
                try:
                    found = load_retriever(folder).search(REQUESTS, n_tools)
                except InputError:
                    continue
                essential = path.suffix == ".safetensors" or path.name == "tools.json"
                assert not essential, f"{path.name}: damage to it is not noticed"
                _assert_same(found, case.hits, f"{path.name}: damage changes hits")
            path.write_bytes(content)


def check_impossible_values(case: RetrieverCase) -> None:
    """Arrays of another shape or with impossible numbers are refused."""
    from safetensors.numpy import load_file, save_file

    with _folder() as folder:
        case.fitted.save(folder)
        for path in folder.rglob(ARRAYS):
            arrays = load_file(path)
            for name, array in arrays.items():
                for changed in _damage(array):
                    save_file({**arrays, name: np.array(changed, order="C")}, path)
                    _assert_damage_refused(
                        folder, f"{name}, which is {changed.tolist()}"[:99]
                    )
                without = {key: kept for key, kept in arrays.items() if key != name}
                save_file(without, path)
                _assert_damage_refused(folder, f"{name} missing")
            save_file({**arrays, "more": np.zeros(3)}, path)
            load_retriever(folder)
            save_file(arrays, path)


def check_adding_tools(case: RetrieverCase) -> None:
    """Added tools are found, once more when saved; the others keep their order.

    The original retriever does not change: it may be in use.
    """
    n_tools, before = len(case.bank.tools), case.hits
    with _folder() as folder:
        case.fitted.save(folder / "before")
        for one in (case.fitted, load_retriever(folder / "before")):
            grown = one.add_tools([_NEW])
            _assert_same(one.search(REQUESTS, n_tools), before, "it stays as it was")
            assert one.tools == case.bank.tool_names, "it keeps its tools"
            assert grown.tools == (*one.tools, _NEW.name), "it comes last"
            hits = grown.search(REQUESTS, n_tools + 1)
            (found,), _ = grown.search([_NEW.summary], n_tools + 1)
            assert n_tools in found, "an added tool is among the hits"
            _check_hits(hits, n_tools + 1)
            others = hits[0][0][hits[0][0] < n_tools]
            same = np.array_equal(others[others >= 0], before[0][0][before[0][0] >= 0])
            assert same, "the others keep their order"
            grown.save(folder / "after")
            again = load_retriever(folder / "after")
            assert again.tools == grown.tools, "added tools are saved"
            later = again.search(REQUESTS, n_tools + 1)
            _assert_same(later, hits, "added tools are found when they were saved")


def check_removing_tools(case: RetrieverCase) -> None:
    """What is removed is not found, not when saved either, and can be added again.

    The original retriever does not change.
    """
    n_tools, before, names = len(case.bank.tools), case.hits, case.fitted.tools
    with _folder() as folder:
        for gone in ([names[0]], [names[-1], names[1]], [*names[:-1]], [*names[1:]]):
            less = case.fitted.add_tools([_NEW]).remove_tools(gone)
            kept = [name for name in (*names, _NEW.name) if name not in gone]
            assert less.tools == tuple(kept), "the others stay, in their order"
            hits = less.search(REQUESTS, n_tools)
            _check_hits(hits, len(kept))
            (found,), _ = less.search([_NEW.summary], n_tools)
            assert kept.index(_NEW.name) in found, "what stays is found"
            less.save(folder / "less")
            again = load_retriever(folder / "less")
            assert again.tools == less.tools, "what is left is saved"
            _assert_same(again.search(REQUESTS, n_tools), hits, "loaded, same hits")
            back = [tool for tool in case.bank.tools if tool.name in gone]
            whole = again.add_tools(back)
            _check_hits(whole.search(REQUESTS, n_tools + 1), n_tools + 1)
        none = case.fitted.remove_tools(names)
        assert none.tools == (), "all can be removed"
        none.save(folder / "none")
        (found,), _ = (
            load_retriever(folder / "none").add_tools([_NEW]).search(["a bell"], 3)
        )
        assert set(found.tolist()) <= {0, -1}, "tools can be added to none"
    _assert_same(case.fitted.search(REQUESTS, n_tools), before, "it stays as it was")
    unknown = [names[0], "no.such.tool"]
    _assert_refused(lambda: case.fitted.remove_tools(unknown), unknown[1])


def check_adding_again(case: RetrieverCase) -> None:
    """A tool that is there, or is given twice, is refused, and nothing is added."""
    there = Tool(name=case.fitted.tools[0], kind="function")
    _assert_refused(lambda: case.fitted.add_tools([there]), there.name)
    _assert_refused(lambda: case.fitted.add_tools([_NEW, _NEW]), _NEW.name)
    assert case.fitted.tools == case.bank.tool_names, "what is refused adds nothing"


def check_search_train(case: RetrieverCase) -> None:
    """A loaded one gives hits for train queries, in their order, cut at k."""
    n_train, n_tools = len(case.bank.train_queries), len(case.bank.tools)
    with _folder() as folder:
        case.fitted.save(folder)
        loaded = load_retriever(folder)
    indices, scores = loaded.search_train(case.bank, n_tools + 50)
    assert len(indices) == n_train, "a row for each train query"
    assert scores.shape == indices.shape, "as many scores as hits"
    assert indices.shape[1] == n_tools, "min(k, n_tools) hits"
    _check_hits((indices, scores), n_tools)


def check_unfitted(case: RetrieverCase) -> None:
    """An unfitted retriever refuses every use, and writes no files."""
    with _folder() as folder:
        unfitted = create_retriever(case.config)
        for use in (
            lambda: unfitted.search(REQUESTS, 3),
            lambda: unfitted.add_tools([_NEW]),
            lambda: unfitted.save(folder / "saved"),
        ):
            _assert_refused(use, "not fitted yet")
        assert not (folder / "saved").exists(), "it writes nothing"


CHECKS = (
    check_settings,
    check_traits,
    check_search,
    check_order_of_tools,
    check_parts_of_a_search,
    check_fit,
    check_without_train,
    check_saving,
    check_damage,
    check_impossible_values,
    check_adding_tools,
    check_adding_again,
    check_removing_tools,
    check_search_train,
    check_unfitted,
)
"""All checks of a retriever."""


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _check_hits(hits: Hits, n_tools: int) -> None:
    for indices, scores in zip(*hits, strict=True):
        n = int((indices >= 0).sum())
        assert (indices[:n] >= 0).all(), "hits come before what fills a row up"
        assert (indices < n_tools).all(), "indices are below the number of tools"
        assert len(set(indices[:n].tolist())) == n, "no tool comes twice"
        assert (np.diff(scores[:n]) <= 0).all(), "scores fall"
        assert (scores[n:] == -np.inf).all(), "a row is filled up with -1 and -inf"


def _damage(array: NDArray[np.generic]) -> Iterator[NDArray[np.generic]]:
    """An array with fewer entries, of another shape, and with impossible numbers."""
    if array.ndim and len(array):
        yield array[None]
    if array.dtype.kind == "f":
        wrong: Sequence[float] = (np.nan, np.inf)
    else:
        wrong = () if array.dtype.kind == "b" else (-2, 10**6)
    for number in wrong:
        changed = array.copy()
        if changed.size:
            changed.flat[changed.size // 2] = number
            yield changed


def _assert_same(found: Hits, expected: Hits, what: str) -> None:
    assert np.array_equal(found[0], expected[0]), what
    assert np.array_equal(found[1], expected[1]), what


def _assert_same_by_name(found: Retriever, expected: Retriever) -> None:
    for k in (3, len(expected.tools)):
        hits, others = found.search(REQUESTS, k), expected.search(REQUESTS, k)
        for row, other in zip(hits[0], others[0], strict=True):
            names = [found.tools[i] for i in row if i >= 0]
            wanted = [expected.tools[i] for i in other if i >= 0]
            assert names == wanted, "another order of tools, other hits; see draw_ties"
        assert np.allclose(hits[1], others[1], atol=_TOLERANCE), "and other scores"


def _assert_damage_refused(folder: Path, what: str) -> None:
    _assert_refused(lambda: load_retriever(folder).search(REQUESTS, 1), "", what)


def _assert_refused(call: Callable[[], object], named: str, what: str = "") -> None:
    """Check that a call raises an InputError that names something."""
    try:
        call()
    except InputError as error:
        assert named in str(error), f"the error should name {named!r}"
    else:
        raise AssertionError(f"{what or named}: not refused")
