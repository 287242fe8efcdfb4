"""All sources of a recipe, read into one list of tools."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.bank.records import Tool
from toolbank.config.assets import Asset, find_asset, has_asset
from toolbank.sources import SOURCES
from toolbank.sources.kind import Collected, SourceConfig, SourceKind
from toolbank.sources.merge import Merged, with_prefix
from toolbank.sources.twins import mark_twins, read_named
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count

_EXAMPLES = 3
_TWINS = ".twins"


def collect_tools(sources: Sequence[SourceConfig], cache: Path) -> Collected:
    """Read every source; of two tools that have a name in common the first counts (`Merged`).

    `cache` is a folder that a source may keep files in, as a crawl does its pages. The tools are
    sorted by name, and say which are their twins.

    Raises:
        InputError: a source can't be read, all of them together give no tool, or two of them a tool
            of one name of which they say different things.
    """
    return _merge(sources, [_read(source, cache) for source in sources])


def collect_anew(
    sources: Sequence[SourceConfig], cache: Path
) -> tuple[Collected, dict[str, ToolbankError]]:
    """As `collect_tools`, and by label why sources can't be read, whose tools are left out.

    What `cache` has is asked for again where it may have changed.

    Raises:
        InputError, ToolbankError: none can be read, or as `collect_tools`.
    """
    read: dict[int, Collected] = {}
    failed: dict[str, ToolbankError] = {}
    for n, source in enumerate(sources):
        try:
            read[n] = _read(_find(source).anew(source), cache)
        except ToolbankError as error:
            failed[source.label] = error
    if failed and not read:
        raise next(iter(failed.values()))
    merged = _merge([sources[n] for n in read], list(read.values()))
    problems = (*merged.problems, *map(str, failed.values()))
    return replace(merged, problems=problems), failed


def _merge(
    sources: Sequence[SourceConfig], collected: Sequence[Collected]
) -> Collected:
    merged = Merged()
    infos: list[dict[str, Any]] = []
    notes: list[str] = []
    for source, one in zip(sources, collected, strict=True):
        known = merged.add(source, one.tools)
        new = len({tool.name for tool in one.tools}) - len(known)
        infos.append({**one.info, "tools": new, "repeated": len(one.tools) - new})
        notes += [*one.notes, *_describe_known(source, known, new)]
    tools = merged.sort()
    if not tools:
        raise InputError(
            "sources: no tool was found. Give a source that has some, such as "
            "{type: python, package: numpy}."
        )
    named = [names for source in sources for names in _read_twins(source)]
    notes += _describe_unknown(sources, tools)
    return Collected(
        mark_twins(tools, named),
        {"tools": len(tools), "sources": infos},
        crawls=tuple(crawl for one in collected for crawl in one.crawls),
        problems=tuple(
            problem
            for source, one in zip(sources, collected, strict=True)
            for problem in (*one.problems, *_describe_repeated(source, one))
        ),
        notes=tuple(dict.fromkeys(notes)),
        complete=all(one.complete for one in collected),
    )


def source_versions(sources: Sequence[SourceConfig]) -> list[str]:
    """What stands for the content of each source without reading it.

    The version that its kind tells, and the hashes of its files in crawlers/. A change of any
    says that the tools must be collected again.
    """
    return [
        "#".join(
            (
                _find(source).version(source),
                *(file.sha256[:16] for file in source_files([source])),
            )
        )
        for source in sources
    ]


def source_files(sources: Sequence[SourceConfig]) -> tuple[Asset, ...]:
    """The files in crawlers/ that sources have: what they take, and which tools are twins."""
    names = [
        f"{name}{ending}"
        for source in sources
        for name, ending in ((source.scope_name, ".yaml"), (source.api_name, _TWINS))
        if name
    ]
    return tuple(
        find_asset("crawlers", name)
        for name in dict.fromkeys(names)
        if has_asset("crawlers", name)
    )


def source_places(sources: Sequence[SourceConfig]) -> tuple[Path, ...]:
    """The folders and files on this machine that sources are read from by name.

    Raises:
        InputError: a name can't be one.
    """
    return tuple(place for s in sources for place in _find(s).places(s))


def refuse_to_start(sources: Sequence[SourceConfig], instead: str) -> None:
    """Refuse sources whose reading starts commands; `instead` is what to type to have it so.

    Raises:
        InputError: names the commands.
    """
    for source in sources:
        if lines := _find(source).starts(source):
            more = f" and {len(lines) - 1:,} more" if len(lines) > 1 else ""
            raise InputError(
                f"sources: the tools of {source.label} were not read yet, and reading them starts "
                f"{lines[0]}{more}, which this command does not. Have them read first: {instead}"
            )


def describe_keeps(sources: Sequence[SourceConfig]) -> str:
    """What these sources keep where reading them is stopped, as sentences; "" for nothing."""
    return " ".join(dict.fromkeys(filter(None, (_find(s).keeps for s in sources))))


def _describe_repeated(source: SourceConfig, read: Collected) -> list[str]:
    """A line where a source lists tools more than once."""
    counts = Counter(tool.name for tool in read.tools)
    repeated = [name for name, count in counts.items() if count > 1]
    if not repeated:
        return []
    return [
        f"{source.label}: tools that are listed more than once ({len(repeated):,}), such as "
        f"{', '.join(repeated[:_EXAMPLES])}; the first of each counts"
    ]


def _read(source: SourceConfig, cache: Path) -> Collected:
    """A source's tools by the names that the recipe has them go by."""
    read = _find(source).read(source, cache)
    tools, info = read.tools, read.info
    if source.name:
        of = {"source": source.label}
        tools = tuple(tool.model_copy(update=of) for tool in tools)
        info = info | of
    if source.prefix:
        tools = with_prefix(tools, source.prefix)
    return replace(read, tools=tools, info=info)


def _read_twins(source: SourceConfig) -> list[list[str]]:
    """What crawlers/<api>.twins names of a source's tools."""
    lead = f"{source.prefix}/" if source.prefix else ""
    return [
        [f"{lead}{name}" for name in names]
        for file in source_files([source])
        if file.name.endswith(_TWINS)
        for names in read_named(file)
    ]


def _describe_unknown(
    sources: Sequence[SourceConfig], tools: Sequence[Tool]
) -> Iterator[str]:
    """A line for each of the user's own files of twins that has names of no tool."""
    index = Bank(tuple(tools)).index
    for source in sources:
        lead = f"{source.prefix}/" if source.prefix else ""
        for file in source_files([source]):
            if file.own and file.name.endswith(_TWINS):
                names = {name for line in read_named(file) for name in line}
                unknown = sorted(n for n in names if f"{lead}{n}" not in index)
                if unknown:
                    yield (
                        f"{file.path}: {count(len(unknown), 'name')} of no tool, such as "
                        f"{', '.join(unknown[:_EXAMPLES])}, passed over"
                    )


def _describe_known(
    source: SourceConfig, known: Mapping[str, SourceConfig], new: int
) -> list[str]:
    """A line where tools of a source are those of one before."""
    repeated = sorted(known)
    if not repeated:
        return []
    if not new and all(owner == source for owner in known.values()):
        return [f"{source.label}: is listed as a source twice; one will do"]
    labels = sorted({owner.label for owner in known.values()})
    return [
        f"{source.label}: {len(repeated):,} of its {count(new + len(known), 'tool')} "
        f"{'is' if len(repeated) == 1 else 'are'} in "
        f"{', '.join(labels)} too, such as {', '.join(repeated[:_EXAMPLES])}; each counts "
        "once, as read there"
    ]


def _find(source: SourceConfig) -> SourceKind[Any]:
    return SOURCES.find(source.type, "sources")
