import bm25s
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.retrievers.small_methods import fit_one
from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.retrievers.base import all_words
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.retrievers.settings import Bm25Config


def fit(bank):
    return fit_one(Bm25Config(), bank)


def test_camel_case_and_separators_are_split():
    tool = Tool(name="np.linalg.LinAlgError2d_x", kind="class")
    assert "np linalg Lin Alg Error2d x" in all_words(tool)


def test_scores_equal_those_of_the_library(bank, cases):
    library = bm25s.BM25()
    texts = [all_words(tool) for tool in bank.tools]
    library.index(bm25s.tokenize(texts, stopwords="en", show_progress=False))
    request = "give back the money of the song order"
    quiet = {"stopwords": "en", "show_progress": False}
    words = bm25s.tokenize(request, **quiet, return_ids=False)
    _, expected = library.retrieve(words, k=6, show_progress=False)
    scores = cases["bm25"].fitted.search([request], 6)[1][0]
    found = scores[np.isfinite(scores)]
    assert len(found) > 1
    np.testing.assert_allclose(found, expected[0, : len(found)])
    assert not expected[0, len(found) :].any()


def test_a_tool_that_shares_no_word_is_no_hit_whatever_the_order_of_the_file():
    tools = tuple(Tool(name=f"t{n}", summary=f"word{n}") for n in range(9))
    for listed in (tools, tools[::-1]):
        retriever = fit(Bank(listed))
        indices, scores = retriever.search(["nothing of that", "word3"], 3)
        assert indices[0].tolist() == [-1, -1, -1]
        assert [retriever.tools[indices[1, 0]], *indices[1, 1:]] == ["t3", -1, -1]
        assert np.isinf(scores[indices < 0]).all()


def test_with_requests_a_tool_is_found_by_the_words_of_those_that_use_it(asked):
    retriever = fit_one(Bm25Config(requests=True), asked)
    for request, name in {
        "the lawn is brown": "garden.water",
        "hush everybody": "music.stop",
        "silence the speakers": "music.stop",
    }.items():
        assert retriever.tools[retriever.search([request], 1)[0][0, 0]] == name
    assert fit(asked).search(["hush everybody"], 1)[0] == -1


def test_only_without_requests_is_it_what_words_alone_can_do():
    assert Bm25Config().baseline == "words"
    assert Bm25Config(requests=True).baseline is None


WORDS = st.sampled_from(["song", "play", "bell", "door", "city", "rain", "ring"])
TEXTS = st.lists(st.lists(WORDS, max_size=40).map(" ".join), max_size=8)


def same(index, texts):
    expected = LexicalIndex.of(texts)
    asked = ["song play bell door", "city rain", "ring"]
    np.testing.assert_array_equal(index.scores(asked), expected.scores(asked))
    assert set(index.vocabulary) == set(expected.vocabulary)


@given(TEXTS, TEXTS, st.data())
def test_it_is_as_if_made_of_the_texts_that_are_there(before, added, data):
    index = LexicalIndex.of(before)
    grown = index.added(added, range(len(before), len(before) + len(added)))
    texts = [*before, *added]
    same(grown, texts)
    rows = data.draw(st.permutations(range(len(texts))))
    rows = rows[: data.draw(st.integers(0, len(texts)))]
    same(grown.kept(np.array(rows, np.int64)), [texts[row] for row in rows])
    if texts:
        longer = data.draw(st.lists(st.tuples(st.integers(0, len(texts) - 1), WORDS)))
        for place, word in longer:
            texts[place] += f" {word}"
        same(grown.added([w for _, w in longer], [p for p, _ in longer]), texts)
    same(index, before)
