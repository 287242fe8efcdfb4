"""Questions, contexts, and the pooled states of all layers of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import Ties, cosine_scores, rank_gold
from toolbank.papers.experiment import Pooling, read_rows
from toolbank.papers.layers.encoder import HeadlessModel, pool, unit
from toolbank.system.errors import InputError
from toolbank.system.files import get_id, get_text, get_texts
from toolbank.system.numbers import unsigned

_KEPT: tuple[Pooling, ...] = ("mean", "last")


@dataclass(frozen=True)
class PooledStates:
    """The means and the last states of n texts in each layer [layers + 1, n, d].

    `tokens` [n] counts the tokens of each text. The arrays are on disk, since those of a language
    model may be larger than memory.
    """

    means: NDArray[np.float32]
    lasts: NDArray[np.float32]
    tokens: NDArray[np.int64]

    def vectors(self, layer: int, pooling: Pooling) -> NDArray[np.float32]:
        """Return the unscaled vectors [n, d] of one layer."""
        if pooling == "last":
            return np.array(self.lasts[layer])
        means = np.array(self.means[layer])
        if pooling == "mean":
            return means
        return np.asarray(means * self.tokens[:, None], dtype=np.float32)


def pool_layers(
    model: HeadlessModel,
    texts: Sequence[str],
    prompt: str,
    folder: Path,
    *,
    batch_size: int,
    max_length: int,
) -> PooledStates:
    """Read each text once, in the prompt, and pool the states of every layer.

    The arrays are files in `folder`, which must exist while they are used.

    Raises:
        InputError: the prompt alone is too long.
    """
    from tqdm import tqdm

    tokens = model.tokenize(texts, prompt, max_length)
    shape = (model.layers + 1, len(texts), model.dimension)
    kept = {
        pooling: np.memmap(folder / pooling, mode="w+", dtype=np.float32, shape=shape)
        for pooling in _KEPT
    }
    # By length, so a batch has little padding.
    order = sorted(range(len(texts)), key=lambda i: len(tokens[i]), reverse=True)
    with tqdm(total=len(texts), desc="read", unit="text", disable=None) as bar:
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            layers, mask = model.states([tokens[i] for i in batch])
            for layer, states in enumerate(layers):
                for pooling, array in kept.items():
                    array[layer, batch] = pool(states, mask, pooling).cpu().numpy()
            bar.update(len(batch))
    lengths = np.array([len(found) for found in tokens], np.int64)
    return PooledStates(kept["mean"], kept["last"], lengths)


@dataclass(frozen=True)
class Passages:
    """Contexts with the titles of their documents, and questions.

    `gold` [n_questions] is the position of each question's context.
    """

    ids: tuple[str, ...]
    contexts: tuple[str, ...]
    titles: tuple[str, ...]
    questions: tuple[str, ...]
    gold: NDArray[np.int64]


def read_passages(folder: Path) -> Passages:
    """Read corpus.jsonl (id, title, text) and queries.jsonl (query, contexts: the id of one).

    Raises:
        InputError: a file is missing, empty or has broken lines; two contexts have one id.
    """
    corpus = folder / "corpus.jsonl"
    rows = read_rows(corpus, _parse_context)
    places: dict[str, int] = {}
    for name, _, _ in rows:
        if places.setdefault(name, len(places)) != len(places) - 1:
            raise InputError(f"{corpus}: two contexts have the id {name!r}.")

    def parse_question(row: dict[str, Any], _: int) -> tuple[str, int]:
        found = get_texts(row, "contexts")
        if len(found) != 1 or found[0] not in places:
            raise ValueError('"contexts" is not the id of one context')
        return get_text(row, "query"), places[found[0]]

    questions = read_rows(folder / "queries.jsonl", parse_question)
    ids, titles, contexts = zip(*rows, strict=True)
    texts, gold = zip(*questions, strict=True)
    return Passages(ids, contexts, titles, texts, np.array(gold, np.int64))


def _parse_context(row: dict[str, Any], number: int) -> tuple[str, str, str]:
    return get_id(row, number), get_text(row, "title"), get_text(row, "text")


Distance = Literal["cosine", "euclidean"]
"""How vectors are compared; a flat FAISS index uses the Euclidean distance."""

Vectors = NDArray[np.float32]

METRICS = ("recall@1", "recall@5", "recall@10", "mrr")
_DEPTHS = (1, 5, 10)


def measure(
    score: Callable[[slice], NDArray[np.float32]], ties: Ties, gold: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compute `METRICS` [n_questions, 4]; `score` returns [n, n_documents] for a slice.

    A question has one document, `gold`; the reciprocal rank has no cut-off.
    """
    ranks = rank_gold(score, ties, gold)
    return np.stack([*(ranks <= k for k in _DEPTHS), 1 / ranks], axis=1)


def compare(
    questions: Vectors, documents: Vectors, distance: Distance
) -> Callable[[slice], NDArray[np.float32]]:
    """Score vectors [n, d] against [m, d]; a higher score is nearer by that distance."""
    if distance == "cosine":
        own, others = unit(questions), unit(documents)
        return lambda rows: cosine_scores(own[rows], others)
    # -|q - v|^2 + |q|^2 orders the documents of a question as -|q - v| does.
    squares = np.square(documents).sum(axis=1)
    return lambda rows: 2 * questions[rows] @ documents.T - squares


SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The probabilities that a context becomes a document of its own."""


@dataclass(frozen=True)
class ContextDocuments:
    """The document of each context [n_contexts], and the number of documents."""

    of_context: NDArray[np.int64]
    count: int

    def join(self, contexts: Sequence[str]) -> list[str]:
        """Join the contexts of each document, in order."""
        parts: list[list[str]] = [[] for _ in range(self.count)]
        for place, text in zip(self.of_context, contexts, strict=True):
            parts[place].append(text)
        return ["\n".join(part) for part in parts]

    def pool(
        self, vectors: NDArray[np.float32], weights: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Compute the weighted means [count, d] of the vectors of contexts [n_contexts, d].

        Weighted by numbers of tokens, means over tokens become that of the whole document.
        """
        total = np.zeros((self.count, vectors.shape[1]), np.float64)
        np.add.at(total, self.of_context, vectors * weights[:, None])
        counts = np.bincount(self.of_context, weights, self.count)
        return np.asarray(total / counts[:, None], dtype=np.float32)


def split_titles(titles: Sequence[str], share: float, seed: int) -> ContextDocuments:
    """Make each context its own document with probability `share`, and one of the rest of a title.

    The draws are the same for every share, so a greater one only adds documents.
    """
    drawn = np.random.default_rng(unsigned(seed)).random(len(titles))
    places: dict[str | int, int] = {}
    found = [
        places.setdefault(number if draw < share else title, len(places))
        for number, (title, draw) in enumerate(zip(titles, drawn, strict=True))
    ]
    return ContextDocuments(np.array(found, np.int64), len(places))
