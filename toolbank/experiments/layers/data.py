"""Questions and the contexts that answer them, such as those of SQuAD."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolbank.system.errors import InputError
from toolbank.system.files import get_id, get_text, get_texts, read_lines


@dataclass(frozen=True)
class Passages:
    """Contexts with the titles of what they are from, and questions.

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
        InputError: a file is missing or has broken lines, or has none; two contexts have one id.
    """
    corpus = folder / "corpus.jsonl"
    rows = read_lines(corpus, _parse_context)
    places: dict[str, int] = {}
    for name, _, _ in rows:
        if places.setdefault(name, len(places)) != len(places) - 1:
            raise InputError(f"{corpus}: two contexts have the id {name!r}.")

    def parse_question(row: dict[str, Any], _: int) -> tuple[str, int]:
        found = get_texts(row, "contexts")
        if len(found) != 1 or found[0] not in places:
            raise ValueError('"contexts" is not the id of one context')
        return get_text(row, "query"), places[found[0]]

    queries = folder / "queries.jsonl"
    questions = read_lines(queries, parse_question)
    for path, found in ((corpus, rows), (queries, questions)):
        if not found:
            raise InputError(f"{path}: there is nothing in it.")
    ids, titles, contexts = zip(*rows, strict=True)
    texts, gold = zip(*questions, strict=True)
    return Passages(ids, contexts, titles, texts, np.array(gold, np.int64))


def _parse_context(row: dict[str, Any], number: int) -> tuple[str, str, str]:
    return get_id(row, number), get_text(row, "title"), get_text(row, "text")
