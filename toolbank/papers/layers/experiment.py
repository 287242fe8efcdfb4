"""The tables of LMTutor: models, layers, poolings, and documents of different sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.ranking import draw_ties
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.evaluation.figures import Figure, mean_intervals
from toolbank.evaluation.tables import Columns, lay_out, with_intervals
from toolbank.papers.experiment import ONE_WORD, TEXT, Pooling, Result
from toolbank.papers.layers.encoder import HeadlessModel
from toolbank.papers.layers.states import (
    METRICS,
    SHARES,
    ContextDocuments,
    Distance,
    Passages,
    PooledStates,
    Vectors,
    compare,
    measure,
    pool_layers,
    split_titles,
)
from toolbank.report.report import line_figure
from toolbank.report.svg import Mean, draw_lines
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.system.terminal import align

_RESAMPLES = 1000
_DISTANCES: tuple[Distance, ...] = ("cosine", "euclidean")
_PROMPTS = {"plain": TEXT, "one word": ONE_WORD}
_POOLINGS: dict[str, tuple[Pooling, ...]] = {
    "plain": ("mean", "sum", "last"),
    "one word": ("last",),
}
"""How the states of each prompt are pooled."""


@dataclass(frozen=True)
class Row:
    """A way to find contexts, and its figure for each metric.

    `layer` counts from 0, the token embeddings; None for a baseline.
    """

    model: str
    layer: int | None = None
    prompt: str = ""
    pooling: str = ""
    distance: str = ""
    share: float = 1.0
    figures: tuple[Mean, ...] = ()


Measured = list[tuple[Row, NDArray[np.float64]]]


def evaluate_layers(
    passages: Passages,
    models: Sequence[str],
    *,
    batch_size: int,
    max_length: int,
    seed: int,
) -> Result:
    """Find the context of each question with each layer of each model, and with two baselines.

    The baselines are BM25 and the default sentence encoder. Each model reads every text once with
    each of two prompts.

    Raises:
        InputError: a model cannot be downloaded or read.
    """
    documents = {share: split_titles(passages.titles, share, seed) for share in SHARES}
    work = _Work(passages, documents)
    measured = [*work.measure_words(), *work.measure_sentences()]
    for name in models:
        model = HeadlessModel(name)
        with tempfile.TemporaryDirectory() as folder:
            measured += work.measure_model(model, Path(folder), batch_size, max_length)
    rows = _with_figures(measured, seed)
    return _describe(rows, passages, documents, models)


@dataclass(frozen=True)
class _Work:
    passages: Passages
    documents: dict[float, ContextDocuments]

    def measure_words(self) -> Iterator[tuple[Row, NDArray[np.float64]]]:
        """BM25 over the texts of the documents."""
        for share, documents in self.documents.items():
            index = LexicalIndex.of(documents.join(self.passages.contexts))
            yield (
                Row("BM25", share=share),
                self._measure(
                    lambda rows, index=index: index.scores(
                        self.passages.questions[rows]
                    ),
                    documents,
                ),
            )

    def measure_sentences(self) -> Iterator[tuple[Row, NDArray[np.float64]]]:
        """The default sentence encoder; a document has the mean vector of its contexts."""
        config = SentenceConfig()
        encoder = load_encoder(config)
        questions = encoder.encode_queries(self.passages.questions)
        contexts = encoder.encode_documents(self.passages.contexts)
        row = Row(f"{config.label}, as it is", distance="cosine")
        yield from self._over_shares(
            row, questions, contexts, np.ones(len(contexts), np.int64)
        )

    def measure_model(
        self, model: HeadlessModel, folder: Path, batch_size: int, max_length: int
    ) -> Iterator[tuple[Row, NDArray[np.float64]]]:
        """Every layer, prompt and pooling; larger documents with the last layer only."""

        def read(kind: str, prompt: str, texts: Sequence[str]) -> PooledStates:
            place = folder / prompt / kind
            place.mkdir(parents=True)
            return pool_layers(
                model,
                texts,
                _PROMPTS[prompt],
                place,
                batch_size=batch_size,
                max_length=max_length,
            )

        for prompt, poolings in _POOLINGS.items():
            questions = read("questions", prompt, self.passages.questions)
            contexts = read("contexts", prompt, self.passages.contexts)
            for pooling in poolings:
                for layer in range(model.layers + 1):
                    asked = questions.vectors(layer, pooling)
                    given = contexts.vectors(layer, pooling)
                    for distance in _DISTANCES:
                        row = Row(model.name, layer, prompt, pooling, distance)
                        documents = self.documents[1.0]
                        scores = compare(asked, given, distance)
                        yield row, self._measure(scores, documents)
                if pooling == "sum":
                    continue
                row = Row(model.name, model.layers, prompt, pooling, "cosine")
                weights = contexts.tokens
                if pooling == "last":
                    weights = np.ones_like(weights)
                for found in self._over_shares(row, asked, given, weights):
                    if found[0].share < 1:
                        yield found

    def _over_shares(
        self,
        row: Row,
        questions: Vectors,
        contexts: Vectors,
        weights: NDArray[np.int64],
    ) -> Iterator[tuple[Row, NDArray[np.float64]]]:
        for share, documents in self.documents.items():
            scores = compare(questions, documents.pool(contexts, weights), "cosine")
            yield replace(row, share=share), self._measure(scores, documents)

    def _measure(self, score: Any, documents: ContextDocuments) -> NDArray[np.float64]:
        names = dict(zip(documents.of_context, self.passages.ids, strict=True))
        ids = tuple(names[n] for n in range(documents.count))
        ties = draw_ties(self.passages.questions, ids)
        return measure(score, ties, documents.of_context[self.passages.gold])


def _with_figures(measured: Measured, seed: int) -> list[Row]:
    """The rows with means and intervals, from the same resamples."""
    columns = np.concatenate([values for _, values in measured], axis=1)
    intervals = mean_intervals(columns, _RESAMPLES, seed)
    found = [
        Mean(float(mean), low, high, len(columns))
        for mean, (low, high) in zip(columns.mean(axis=0), intervals, strict=True)
    ]
    n = len(METRICS)
    return [
        replace(row, figures=tuple(found[start : start + n]))
        for start, (row, _) in zip(range(0, len(found), n), measured, strict=True)
    ]


def _describe(
    rows: Sequence[Row],
    passages: Passages,
    documents: dict[float, ContextDocuments],
    models: Sequence[str],
) -> Result:
    whole = [row for row in rows if row.share == 1]
    tops = {
        name: max(r.layer or 0 for r in whole if r.model == name) for name in models
    }
    floors = [row for row in whole if row.layer is None]
    mean = [row for row in whole if row.pooling == "mean"]
    tables = {
        "1. Models, the mean of the last layer": floors
        + [row for row in mean if row.layer == tops[row.model]],
        "2. Layers, by their mean": mean,
        "3. Poolings, of the last layer": [
            row for row in whole if row.pooling and row.layer == tops[row.model]
        ],
    }
    split = [
        row
        for row in rows
        if row.distance != "euclidean"
        and row.pooling != "sum"
        and (row.layer is None or row.layer == tops[row.model])
    ]
    lines: dict[str, list[Mean | None]] = {}
    for row in sorted(split, key=lambda row: row.share):
        lines.setdefault(_name(row, models), []).append(row.figures[0])
    chart = draw_lines([f"{share:g}" for share in SHARES], lines)
    assert chart is not None
    figure = line_figure(
        chart,
        "Recall@1 by the share of contexts apart",
        "Recall@1 by the share of contexts that are documents of their own",
    )
    record = {
        "experiment": "layers",
        "questions": len(passages.questions),
        "contexts": len(passages.contexts),
        "documents": {str(share): found.count for share, found in documents.items()},
        "models": list(models),
        "rows": [_as_json(row) for row in rows],
    }
    texts = [f"{title}\n{_format(found, models)}" for title, found in tables.items()]
    head = (
        f"{len(passages.questions):,} questions, {len(passages.contexts):,} contexts; "
        "in percent, MRR x 100. By cosine, and by Euclidean distance of unscaled vectors."
    )
    share_rows = [
        ["", *(f"{share:g}" for share in SHARES)],
        ["documents", *(f"{found.count:,}" for found in documents.values())],
        *(
            [name, *(f"{100 * mean.value:.2f}" for mean in points if mean)]
            for name, points in lines.items()
        ),
    ]
    splits = "\n".join(
        [
            "Recall@1 by the share of contexts that are documents of their own (split.svg)",
            *align(share_rows, right=range(1, len(SHARES) + 1), indent=2),
        ]
    )
    return Result(record, "\n\n".join([head, *texts, splits]), {"split.svg": figure})


def _as_json(row: Row) -> dict[str, Any]:
    found = asdict(row)
    for metric, figure in zip(METRICS, found.pop("figures"), strict=True):
        del figure["n"]
        found[metric] = figure
    return found


def _format(rows: Sequence[Row], models: Sequence[str]) -> str:
    """Format a line per row, with the interval of Recall@1."""
    labels = [_name(row, models, long=True) for row in rows]
    first_figures = [
        Figure(label, "questions", "recall", 1, **asdict(row.figures[0]))
        for label, row in zip(labels, rows, strict=True)
    ]
    header, first = with_intervals("R@1", first_figures)
    cells = [
        (one, *(f"{100 * figure.value:.2f}" for figure in row.figures[1:]))
        for one, row in zip(first, rows, strict=True)
    ]
    columns = Columns((header, "R@5", "R@10", "MRR"), tuple(cells))
    return lay_out(labels, [columns])


def _name(row: Row, models: Sequence[str], *, long: bool = False) -> str:
    """The name of a row in a table; a shorter one in the figure, which has one distance."""
    if row.layer is None:
        return row.model if long or not row.distance else "sentences"
    of = f"{Path(row.model).name} " if len(models) > 1 else ""
    way = "one word" if row.prompt == "one word" else row.pooling
    return f"{of}layer {row.layer} {way} {row.distance}" if long else f"{of}{way}"
