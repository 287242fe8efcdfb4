"""What can be said of labels without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from toolbank.bank.bank import Bank
from toolbank.bank.records import Record, Tool
from toolbank.retrievers.base import all_words
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.sources.twins import find_aliases
from toolbank.verify.candidates import ROUND_TRIP, Candidate, own_labels
from toolbank.verify.config import Check

# "Use isin instead", "in favor of :func:`isin`", "renamed to `np.isin`".
_NAME = r" (?:the )?(?::\w+:)?[`~'\"]*([a-z_][\w.]*\w)"
_INSTEAD = (
    re.compile(
        rf"\b(?:use|in favou?r of|(?:replaced|superseded) (?:by|with)|renamed to){_NAME}",
        re.I,
    ),
    re.compile(rf"\b(?:of|by|to|with){_NAME}", re.I),
)


class Finding(Record):
    """What a check found of a request's label; `instead` is the tool to use in its place, if any.

    `text` is the request that was checked; version 0.7.0 did not store it.
    """

    query: str
    text: str = ""
    check: Check
    tool: str
    instead: str = ""
    detail: str = ""


def check_labels(
    bank: Bank, candidates: Mapping[str, Sequence[Candidate]]
) -> Iterator[Finding]:
    """What the checks find, request by request.

    - `deprecated`: the tool's own reference says that it is; `instead` is what it names.
    - `alias`: the reference says that it is another name of `instead`.
    - `unspoken`: the request's explanation has no word in common with the tool's reference.
    - `round-trip`: none of the request's labels is among the first 50 that Tool2Vec finds without
      having seen it.
    """
    aliases = find_aliases(bank.tools)
    instead = {
        tool.name: _find_replacement(tool, bank)
        for tool in bank.tools
        if tool.deprecated
    }
    words = LexicalIndex.of([all_words(tool) for tool in bank.tools])
    for query in bank.queries:
        labels = own_labels(bank, query)
        find = partial(Finding, query=query.id, text=query.query)
        shared = words.scores([query.explanation])[0]
        for name in labels:
            tool = bank.tools[bank.index[name]]
            if tool.deprecated:
                yield find(
                    check="deprecated",
                    tool=name,
                    instead=instead[name] or aliases.get(name, ""),
                    detail=tool.deprecated,
                )
            elif name in aliases:
                yield find(check="alias", tool=name, instead=aliases[name])
            if query.explanation and not shared[bank.index[name]]:
                yield find(check="unspoken", tool=name)
        ranks = {row.tool: row.rank for row in candidates[query.id]}
        if labels and not any(0 < ranks.get(name, 0) <= ROUND_TRIP for name in labels):
            yield find(check="round-trip", tool=labels[0])


def select_findings(bank: Bank, findings: Iterable[Finding]) -> list[Finding]:
    """Those of earlier findings that apply to a bank: its requests with their texts and labels."""
    queries = {query.id: query for query in bank.queries}
    return [
        one
        for one in findings
        if (query := queries.get(one.query))
        and one.text in ("", query.query)
        and one.tool in own_labels(bank, query)
        and (not one.instead or one.instead in bank.index)
    ]


def _find_replacement(tool: Tool, bank: Bank) -> str:
    """The first tool that a note of deprecation names to be used, from the own module outwards."""
    around = tool.name.split(".")[:-1]
    for said in (said for one in _INSTEAD for said in one.findall(tool.deprecated)):
        # A package may be called by its short name there, as np.
        for name in (said, said.rpartition(".")[2]):
            for depth in range(len(around), -1, -1):
                place = bank.index.get(".".join((*around[:depth], name)))
                if place is not None and bank.tools[place].name != tool.name:
                    return bank.tools[place].name
    return ""
