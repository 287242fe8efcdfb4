"""Keeping the tools that were read of the sources of a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.files import read_tools, write_tools
from toolbank.bank.records import McpCall
from toolbank.run.catalogue import add_version, count_begun, has_begun, read_catalogue
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json
from toolbank.system.numbers import count
from toolbank.system.terminal import command

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.recipe import Recipe
    from toolbank.run.folder import RunFolder
    from toolbank.sources.kind import Collected


def explain_loss(folder: RunFolder, collected: Collected) -> str:
    """Which source gives under half of its former tools, and what to do; "" if none does."""
    path = folder.bank / "sources.json"
    if not path.is_file():
        return ""
    former, now = (_count_tools(info) for info in (read_json(path), collected.info))
    if len(former) != len(now):
        # One that could not be read was left out.
        former, now = (
            [("the sources", sum(n for _, n in all_))] for all_ in (former, now)
        )
    lost = [
        f"{label} gives {count(n, 'tool')}, where it gave {had:,}"
        for (_, had), (label, n) in zip(former, now, strict=True)
        if 2 * n < had
    ]
    if not lost:
        return ""
    return f"{folder.path}: {'; '.join(lost)}.\n{advise_to_force(folder.path)}"


def former_tools(folder: RunFolder) -> tuple[Tool, ...]:
    """The tools that a folder has; none where it has none that can be read."""
    path = folder.bank / "tools.parquet"
    try:
        return read_tools(path) if path.is_file() else ()
    except InputError:
        return ()


def keep_labels(folder: RunFolder, collected: Collected) -> Collected:
    """What was read, with the labels that its sources had where nothing else has changed.

    Earlier versions gave other labels, for which no retriever has to be trained again. Sources that
    had one label together are told apart. Before anything was asked, the new labels count.
    """
    former = former_tools(folder) if has_begun(folder) else ()
    told: dict[str, set[str]] = defaultdict(set)
    for before, after in zip(former, collected.tools, strict=False):
        told[_place(before)].add(_place(after))
    is_same = [*map(_without_place, former)] == [
        *map(_without_place, collected.tools)
    ] and all(len(labels) == 1 for labels in told.values())
    return replace(collected, tools=former) if is_same else collected


def advise_to_refresh(run: Path, collected: Collected) -> list[str]:
    """What to do about the parts of sources that could not be read."""
    if collected.complete:
        return []
    return [
        "What could not be read is left as it was, and the run goes on without. To read it again: "
        f"{command('refresh', run)}"
    ]


def advise_to_force(run: Path) -> str:
    """That nothing was changed, and how it is to be all the same."""
    return (
        "Nothing was changed. Where that is as it should be, take it as it is: "
        f"{command('refresh', run)} --force"
    )


def keep_tools(
    recipe: Recipe, folder: RunFolder, collected: Collected
) -> tuple[Path, ...]:
    """Write what was read, and give the files; as a version where anything was asked before.

    From before there is a version until all is written, the stage that reads the sources is not
    done, so that a run after a kill reads them again.

    Raises:
        ToolbankError: the journal is damaged, or the folder can't be written to.
    """
    tools, info = (folder.bank / n for n in ("tools.parquet", "sources.json"))
    if has_begun(folder) and tools.is_file():
        before = read_catalogue(folder)
        if before.tools != collected.tools:
            begun = count_begun(recipe, folder, before)
            folder.forget(tools)
            add_version(folder, before, collected.tools, begun)
    write_tools(tools, collected.tools)
    said = {"notes": collected.notes, "problems": collected.problems}
    write_json(
        info, collected.info | {key: lines for key, lines in said.items() if lines}
    )
    files = [tools, info]
    if collected.crawls:
        files.append(folder.bank / "crawl.json")
        write_json(files[-1], {"sources": collected.crawls})
    return tuple(files)


def _place(tool: Tool) -> str:
    """The source of a tool, and the MCP server."""
    server = tool.call.source if isinstance(tool.call, McpCall) else ""
    return f"{tool.source}\n{server}"


def _without_place(tool: Tool) -> Tool:
    call = tool.call
    if isinstance(call, McpCall):
        call = call.model_copy(update={"source": ""})
    return tool.model_copy(update={"source": "", "call": call})


def _count_tools(info: Any) -> list[tuple[str, int]]:
    """The label of each source, and how many tools it gave."""
    return [
        (str(one.get("source", "a source")), int(one.get("tools", 0)))
        for one in info.get("sources", ())
    ]
