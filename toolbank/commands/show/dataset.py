"""Showing the queries of a run whose bank comes from a dataset."""

from __future__ import annotations

import shlex

from toolbank.bank.bank import load_bank
from toolbank.bank.files import read_query, read_tools
from toolbank.commands.show.tool import name_nearest
from toolbank.commands.show.verified import show_verified
from toolbank.run.folder import RunFolder
from toolbank.system.errors import InputError
from toolbank.system.terminal import command, one_line

_DATASET_EXAMPLES = 4
_WITHHELD = "not used"
_UNKNOWN = "not in the bank"
_LONGEST = 160


def show_query(folder: RunFolder, name: str) -> str:
    """A query of the dataset: its split, its text, and its tools.

    Raises:
        InputError: there is none of this id.
    """
    query = read_query(folder.bank / "queries.parquet", name)
    if query is None:
        raise InputError(
            f"{name}: no query and no tool of this run, whose queries come from a dataset. "
            f"{name_nearest(folder, name)}Ids of queries: {command('show', folder.path)}"
        )
    summaries = {
        tool.name: tool.summary for tool in read_tools(folder.bank / "tools.parquet")
    }
    lines = [f"{query.id}, of the dataset ({query.split or _WITHHELD})", query.query]
    lines += [f"draft: {query.draft}"] if query.draft else []
    lines += ["tools:"]
    lines += [
        f"  {one_line(tool, _LONGEST)}  {one_line(summaries.get(tool, _UNKNOWN), _LONGEST)}"
        for tool in query.tools
    ]
    lines += [f"explanation: {query.explanation}"] if query.explanation else []
    return "\n\n".join(filter(None, ("\n".join(lines), show_verified(folder, query))))


def show_splits(folder: RunFolder) -> str:
    """How many queries each split has, with a few ids of each.

    Raises:
        InputError: the bank is not made yet, or damaged.
    """
    queries = load_bank(folder.path).queries
    lines = [
        "The queries come from a dataset; no model was asked for them.",
        f"{'split':<12} {'count':>9}  such as",
    ]
    splits = queries.group_by("split", maintain_order=True).agg("id")
    for split, names in splits.iter_rows():
        examples = ", ".join(
            one_line(name, _LONGEST) for name in names[:_DATASET_EXAMPLES]
        )
        lines.append(f"{split or _WITHHELD:<12} {len(names):>9,}  {examples}")
    lines.append(
        f"All of one: {command('show', folder.path)} {shlex.quote(queries['id'][0])}"
    )
    return "\n".join(lines)
