"""Export a bank for sentence-transformers: pairs, triplets, and data of its evaluator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from toolbank.bank.bank import NEEDED, Bank
from toolbank.bank.records import Query, Tool, group_siblings
from toolbank.publish.exports.kind import ExportKind, select_split, write_lines
from toolbank.publish.qrels import BEIR_SPLITS, Corpus, QrelCounts
from toolbank.system.files import write_json, write_text
from toolbank.system.text import fill_template

NEGATIVES = 3
"""The most negatives of a pair."""
_DEPTH = 50
_MOST_SIMILAR = 0.95


def export_training(bank: Bank, folder: Path) -> None:
    """Write pairs and triplets of the train queries and asks, and what the evaluator takes.

    - pairs.jsonl: a request and the description of a tool that it needs (anchor, positive)
    - triplets.jsonl: the same with a hard negative, up to `NEGATIVES` rows for each pair
    - corpus.json; dev.json and test.json, with `queries` and `relevant_docs`: arguments of
      `InformationRetrievalEvaluator`, where needed tools are relevant
    """
    train: list[Query] = [*select_split(bank, "train"), *bank.asked]
    texts = [_describe(tool) for tool in bank.tools]
    pairs, triplets = [], []
    for query, negatives in zip(train, _mine_negatives(bank, train), strict=True):
        for name in query.tools:
            if name in bank.index:
                place = bank.index[name]
                pair = {"anchor": query.query, "positive": texts[place]}
                pairs.append(pair)
                triplets += [{**pair, "negative": texts[n]} for n in negatives[place]]
    write_lines(folder / "pairs.jsonl", pairs)
    write_lines(folder / "triplets.jsonl", triplets)
    corpus = Corpus()
    ids = [row["_id"] for row in corpus.rows(bank.tools)]
    write_json(folder / "corpus.json", dict(zip(ids, texts, strict=True)))
    for split, name in BEIR_SPLITS.items():
        chosen = select_split(bank, split) if split != "train" else []
        graded = list(corpus.grade(chosen, bank.verified, QrelCounts()))
        relevant = {
            query.id: [tool for tool, grade in query.grades.items() if grade == NEEDED]
            for query in graded
        }
        if graded:
            queries = {query.id: query.text for query in graded}
            content = {"queries": queries, "relevant_docs": relevant}
            write_json(folder / f"{name}.json", content)
    counts = {"pairs": len(pairs), "triplets": len(triplets), "negatives": NEGATIVES}
    card = fill_template("publish/exports/training.md.j2", **counts)
    write_text(folder / "README.md", card)


def _describe(tool: Tool) -> str:
    return f"{tool.name}: {tool.full_description}"


def _mine_negatives(
    bank: Bank, queries: Sequence[Query]
) -> Iterator[dict[int, list[int]]]:
    """Find hard negatives of each query for each of its tools: what BM25 ranks high, nearest first.

    A tool that may fit is none: one with a label, a twin or sibling of one, and one with the same
    description. If nobody graded the query, neither is one that scores more than 95 % of the
    positive (TopK-PercPos of NV-Retriever, arXiv 2407.15831).
    """
    from toolbank.bank.ranking import draw_ties, top_k
    from toolbank.retrievers.base import all_words
    from toolbank.retrievers.lexical import LexicalIndex

    index = LexicalIndex.of([all_words(tool) for tool in bank.tools])
    ties = draw_ties([query.query for query in queries], bank.tool_names)
    alike = _group_alike(bank.tools)
    for row, query in enumerate(queries):
        scores = index.scores([query.query])
        [found], _ = top_k(scores, _DEPTH, ties.of(slice(row, row + 1)))
        names = (*query.tools, *bank.alternatives(query))
        places = [bank.index[name] for name in names if name in bank.index]
        fits = {one for place in places for one in alike[place]}
        is_graded = query.id in bank.verified
        yield {
            place: [
                one
                for one in found.tolist()
                if one not in fits
                if scores[0, one] > 0
                if is_graded or scores[0, one] <= _MOST_SIMILAR * scores[0, place]
            ][:NEGATIVES]
            for place in places
        }


def _group_alike(tools: Sequence[Tool]) -> list[set[int]]:
    """The positions of each tool and of those that nobody tells from it by their descriptions."""
    place_of = {tool.name: place for place, tool in enumerate(tools)}
    same: dict[str, list[Tool]] = {}
    for tool in tools:
        same.setdefault(tool.full_description, []).append(tool)
    alike = [{place} for place in range(len(tools))]
    for group in (*group_siblings(tools), *same.values()):
        for tool in group:
            alike[place_of[tool.name]].update(place_of[one.name] for one in group)
    for tool in tools:
        twins = {place_of[name] for name in tool.twins if name in place_of}
        alike[place_of[tool.name]] |= twins
    return alike


KIND = ExportKind(export_training, ("dev.json", "test.json"), known_only=True)
