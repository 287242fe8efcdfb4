import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.commands.in_process import toolbank
from tests.encoders.tiny_llama import tiny_llama
from tests.world import write_lines
from toolbank.bank.ranking import draw_ties, rank_blocks, rank_gold
from toolbank.papers.layers.states import SHARES, compare, measure, split_titles

CONTEXTS = {
    "rain": ["rain today and tomorrow", "the wind and the sun"],
    "music": ["play a song", "the jazz that I play", "a book of songs"],
}


@pytest.fixture
def data(tmp_path):
    """A folder of five contexts, and a question for each: its own words."""
    folder = tmp_path / "data"
    folder.mkdir()
    corpus = [
        {"id": f"{title}{n}", "title": title, "text": text}
        for title, texts in CONTEXTS.items()
        for n, text in enumerate(texts)
    ]
    queries = [{"query": row["text"], "contexts": [row["id"]]} for row in corpus]
    write_lines(folder / "corpus.jsonl", corpus)
    write_lines(folder / "queries.jsonl", queries)
    return folder


def test_recall_and_reciprocal_rank_are_those_worked_by_hand():
    # Question 0 has its document first, 1 has it second, 2 seventh of seven.
    scores = np.array(
        [[9, 1, 1, 1, 1, 1, 1], [1, 5, 9, 0, 0, 0, 0], [7, 6, 0, 5, 4, 3, 2]],
        np.float32,
    )
    ties = draw_ties(["a", "b", "c"], tuple("uvwxyzt"))
    values = measure(lambda rows: scores[rows], ties, np.array([0, 1, 2]))
    assert values.tolist() == [[1, 1, 1, 1], [0, 1, 1, 1 / 2], [0, 0, 1, 1 / 7]]


@given(
    scores=arrays(np.float32, (4, 9), elements=st.integers(-2, 2).map(float)),
    gold=st.lists(st.integers(0, 8), min_size=4, max_size=4),
)
def test_a_rank_is_the_place_among_the_hits_ties_and_all(scores, gold):
    ties = draw_ties(["a", "b", "c", "d"], tuple("uvwxyztsr"))
    hits, _ = rank_blocks(lambda rows: scores[rows], ties, 9)
    ranks = rank_gold(lambda rows: scores[rows], ties, np.array(gold))
    places = [1 + list(row).index(g) for row, g in zip(hits, gold, strict=True)]
    assert ranks.tolist() == places


@given(
    titles=st.lists(st.sampled_from("abc"), min_size=1, max_size=20),
    seed=st.integers(0, 99),
)
def test_documents_go_from_one_a_title_to_one_a_context(titles, seed):
    counts = [split_titles(titles, share, seed).count for share in SHARES]
    assert counts[0] == len(set(titles))
    assert counts[-1] == len(titles)
    for share in SHARES:
        found = split_titles(titles, share, seed)
        assert sorted(set(found.of_context)) == list(range(found.count))
        texts = found.join([str(n) for n in range(len(titles))])
        assert sorted("\n".join(texts).split("\n")) == sorted(
            str(n) for n in range(len(titles))
        )
        for document in range(found.count):
            [_] = {titles[n] for n in np.nonzero(found.of_context == document)[0]}


def test_vectors_are_compared_and_pooled_as_by_hand():
    question = np.array([[1.0, 0.0]], np.float32)
    documents = np.array([[50.0, 1.0], [0.8, 0.6]], np.float32)
    [by_cosine] = compare(question, documents, "cosine")(slice(0, 1))
    [by_euclid] = compare(question, documents, "euclidean")(slice(0, 1))
    assert by_cosine.argmax() == 0
    assert by_euclid.argmax() == 1
    documents = split_titles(["a", "a", "b"], 0.0, 0)
    vectors = np.array([[1.0], [4.0], [7.0]], np.float32)
    pooled = documents.pool(vectors, np.array([2, 1, 5]))
    assert pooled.tolist() == [[2.0], [7.0]]


def test_the_command_leaves_its_tables_and_figure_the_same_each_time(data, tmp_path):
    tiny_llama(tmp_path / "llama")
    command = ("encoder", "evaluate", "layers", "--data", data, "--out", "found")
    command += ("--model", "./llama")
    first = toolbank(*command, "--json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    record = json.loads(first.stdout)
    left = tmp_path / "found"
    assert json.loads((left / "result.json").read_text()) == record
    assert record["documents"]["0.0"] == 2
    assert record["documents"]["1.0"] == 5
    [words] = [r for r in record["rows"] if r["model"] == "BM25" and r["share"] == 1]
    assert words["recall@1"]["value"] == 1.0
    layers = [r for r in record["rows"] if r["layer"] is not None and r["share"] == 1]
    ways = {(r["layer"], r["prompt"], r["pooling"], r["distance"]) for r in layers}
    assert len(ways) == len(layers) == 4 * 4 * 2
    # A question in the words of its context has its vector; of all, the last token is the same.
    for row in layers:
        alike = row["layer"] == 0 and row["pooling"] == "last"
        assert (row["mrr"]["value"] == 1.0) != alike
    figure = (left / "split.svg").read_text()
    assert figure.count("<polyline") == 5
    before = {path.name: path.read_bytes() for path in left.iterdir()}
    again = toolbank(*command, cwd=tmp_path)
    assert "3. Poolings, of the last layer" in again.stdout
    assert {path.name: path.read_bytes() for path in left.iterdir()} == before


@pytest.mark.parametrize(
    ("action", "out", "rows", "told"),
    [
        ("evaluate", "mine", [], "letter.txt"),
        ("evaluate", "new", [{"query": "why", "contexts": ["c9"]}], "line 1: "),
        ("evaluate", "new", [], "queries.jsonl"),
        ("train", "new", [], "encoder evaluate layers"),
    ],
)
def test_wrong_input_is_told_before_models(data, tmp_path, action, out, rows, told):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    write_lines(data / "queries.jsonl", rows)
    command = ("encoder", action, "layers", "--data", data, "--out", out)
    done = toolbank(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.split())
