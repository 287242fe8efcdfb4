"""Make a sound dataset of what a format read, and count what is skipped, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolbank.bank.bank import Label, SkipCounter
from toolbank.bank.records import Ask, Query, Tool


@dataclass(frozen=True)
class Dataset:
    """Tools with unique names, and queries and asks labelled with these names.

    Queries have the split of the dataset, if it has splits. Asks are for training. `labels` are the
    verified labels of queries, by their ids. `missing` are queries that no tool fits.
    """

    tools: tuple[Tool, ...]
    queries: tuple[Query, ...]
    left_out: SkipCounter
    asks: tuple[Ask, ...] = ()
    labels: tuple[Label, ...] = ()
    missing: tuple[Query, ...] = ()


def gather(
    tools: Iterable[Tool],
    queries: Iterable[Query],
    left_out: SkipCounter,
    asks: Iterable[Ask] = (),
    labels: Iterable[Label] = (),
    missing: Iterable[Query] = (),
) -> Dataset:
    """Keep what is sound, and count the rest in `left_out`.

    Of several tools with one name, the first is kept. A query or ask is skipped if it is blank, has
    no tool or an unlisted one, is a duplicate, or is also in the test. A tool that a query names
    twice counts once. A label is skipped with its query, and if it names an unlisted tool. A
    query of `missing`, those that no tool fits, is skipped if it is blank or a duplicate.
    """
    listed: dict[str, Tool] = {}
    for tool in tools:
        if tool.name in listed:
            left_out.add("tool: listed twice", tool.name)
        else:
            listed[tool.name] = tool
    names = {alias: tool.name for tool in listed.values() for alias in tool.aliases}
    names |= {name: name for name in listed}
    kept: dict[str, Query] = {}
    seen: set[tuple[str, frozenset[str], str | None]] = set()
    for query in queries:
        unlisted = [name for name in query.tools if name not in names]
        used = tuple(dict.fromkeys(names.get(name, name) for name in query.tools))
        same = (query.query, frozenset(used), query.split)
        if not query.query.strip():
            left_out.add("query: blank", query.id)
        elif not used:
            left_out.add("query: needs no tool", query.id)
        elif unlisted:
            example = f"{query.id}: {unlisted[0]}"
            left_out.add("query: needs a tool that is not listed", example)
        elif same in seen:
            left_out.add("query: listed twice", query.id)
        elif query.id in kept:
            left_out.add("query: its id is another's", query.id)
        else:
            seen.add(same)
            kept[query.id] = query.model_copy(update={"tools": used})
            if len(used) < len(query.tools):
                left_out.add("tool of a query: named twice", query.id)
    tested = {query.query for query in kept.values() if query.split == "test"}
    sound = []
    for query in kept.values():
        if query.split != "test" and query.query in tested:
            left_out.add("query: the same text is in the test", query.id)
        else:
            sound.append(query)
    asked: dict[tuple[str, str], Ask] = {}
    for ask in asks:
        name = names.get(ask.tool, "")
        if not ask.ask.strip():
            left_out.add("ask: blank", ask.tool)
        elif not name:
            left_out.add("ask: for a tool that is not listed", ask.tool)
        elif (name, ask.ask) in asked:
            left_out.add("ask: listed twice", f"{name}: {ask.ask}")
        elif ask.ask in tested:
            left_out.add("ask: the same text is in the test", ask.ask)
        else:
            asked[name, ask.ask] = ask.model_copy(update={"tool": name})
    fit_none = _gather_missing(missing, kept.values(), left_out)
    ids = {query.id for query in (*sound, *fit_none)}
    labels_of: dict[str, list[Label]] = {}
    for label in labels:
        labels_of.setdefault(label.query, []).append(label)
    kept_labels: list[Label] = []
    for query_id, graded in labels_of.items():
        if query_id not in ids:
            reason = "label: of a query that is not there"
        elif any({one.tool, one.stands_for} - names.keys() - {""} for one in graded):
            reason = (
                "label: names a tool that is not listed, or another of its query does"
            )
        elif not _fit_together(graded):
            reason = "label: needs a tool, or one of its query that it stands for"
        else:
            kept_labels += (_name_own(label, names) for label in graded)
            continue
        for _ in graded:
            left_out.add(reason, query_id)
    return Dataset(
        tuple(listed.values()),
        tuple(sound),
        left_out,
        tuple(asked.values()),
        tuple(kept_labels),
        fit_none,
    )


def _gather_missing(
    missing: Iterable[Query], queries: Iterable[Query], left_out: SkipCounter
) -> tuple[Query, ...]:
    """Keep the sound ones of queries that no tool fits; of a text twice, that of a test stays."""
    ids, texts = set[str](), set[str]()
    for query in queries:
        ids.add(query.id)
        texts.add(query.query)
    kept: list[Query] = []
    listed = set[str]()
    for query in sorted(missing, key=lambda query: query.split != "test"):
        if not query.query.strip():
            left_out.add("query that no tool fits: blank", query.id)
        elif query.query in texts:
            left_out.add("query that no tool fits: another names tools", query.id)
        elif query.query in listed:
            left_out.add("query that no tool fits: listed twice", query.id)
        elif query.id in ids:
            left_out.add("query that no tool fits: its id is another's", query.id)
        else:
            listed.add(query.query)
            ids.add(query.id)
            kept.append(query)
    return tuple(kept)


def name_apart(documents: Iterable[tuple[str, Tool]]) -> dict[str, Tool]:
    """Return tools by the ids of their documents.

    If several have one name, all but the first end in the id.
    """
    tools: dict[str, Tool] = {}
    taken: set[str] = set()
    for docid, tool in documents:
        name = tool.name if tool.name not in taken else f"{tool.name} #{docid}"
        taken.add(name)
        tools[docid] = tool.model_copy(update={"name": name})
    return tools


def _fit_together(labels: Sequence[Label]) -> bool:
    """Whether the labels of a query exclude it, or need tools that the others can replace."""
    if any(label.grade == "aside" for label in labels):
        return len(labels) == 1
    needed = {label.tool for label in labels if label.grade == "needed"}
    return bool(needed) and all(
        label.tool and (label.grade == "needed" or label.stands_for in needed)
        for label in labels
    )


def _name_own(label: Label, names: Mapping[str, str]) -> Label:
    """Use the tools' own names in a label."""
    tool, stands_for = names.get(label.tool, ""), names.get(label.stands_for, "")
    return label.model_copy(update={"tool": tool, "stands_for": stands_for})
