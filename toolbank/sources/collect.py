"""Recognise sources, and read all sources of a recipe into one list of tools."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from toolbank.bank.bank import Bank
from toolbank.bank.records import HttpCall, McpCall, Tool
from toolbank.config.assets import Asset, find_asset, has_asset
from toolbank.config.explain import first_problem
from toolbank.sources import SOURCES
from toolbank.sources.document_parser import (
    explain_other,
    explain_page,
    is_page,
    shown,
)
from toolbank.sources.kind import (
    Location,
    SourceConfig,
    SourceKind,
    ToolCollection,
)
from toolbank.sources.merge import (
    ToolMerger,
    add_prefix,
    assign_labels,
    assign_server_names,
    mark_twins,
    read_named,
)
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.secrets import mask_command
from toolbank.system.terminal import one_line

_EXAMPLES = 3
_TWINS = ".twins"
_OPENAPI = "openapi:"
_NO_LICENCE = ": not given by the source"


def collect_tools(
    sources: Sequence[SourceConfig], cache: Path, former: Sequence[Tool] = ()
) -> ToolCollection:
    """Read every source and merge their tools, sorted by name and with their twins.

    Of two tools with a common name the first counts (`ToolMerger`). Sources may keep files, such as
    pages, in the folder `cache`. `former` tools of a part that can't be read now are kept.

    Raises:
        InputError: a source can't be read, two have the same name, there is no tool, or two
            different tools have the same name.
    """
    labels = name_sources(sources)
    read = [_read(s, cache, own) for s, own in zip(sources, labels, strict=True)]
    return _merge(sources, labels, read, former)


def collect_anew(
    sources: Sequence[SourceConfig], cache: Path, former: Sequence[Tool] = ()
) -> tuple[ToolCollection, dict[str, ToolbankError]]:
    """Collect tools as `collect_tools` does, also if some sources can't be read.

    The second value are the errors by label. The `former` tools of these sources are kept. Files
    in `cache` are requested again if they may have changed.

    Raises:
        InputError, ToolbankError: no source can be read, or as `collect_tools`.
    """
    read: list[ToolCollection] = []
    failed: dict[str, ToolbankError] = {}
    labels = name_sources(sources)
    for source, own in zip(sources, labels, strict=True):
        try:
            read.append(_read(_find(source).anew(source), cache, own))
        except ToolbankError as error:
            label = own[source.label]
            failed[label] = error
            unread = tuple(own.values())
            info = {"source": label}
            read.append(ToolCollection((), info, problems=(str(error),), unread=unread))
    if len(failed) == len(sources):
        raise next(iter(failed.values()))
    return _merge(sources, labels, read, former), failed


def name_sources(sources: Sequence[SourceConfig]) -> list[dict[str, str]]:
    """Map the labels of each source to those that its tools have in the bank (`assign_labels`).

    Raises:
        InputError: the user gave two sources the same name.
    """
    labels = []
    for source in sources:
        try:
            labels.append(_find(source).labels(source))
        except ToolbankError:
            # Reading it will raise the error.
            labels.append((source.label,))
    return assign_labels(sources, labels)


def _merge(
    sources: Sequence[SourceConfig],
    labels: Sequence[Mapping[str, str]],
    collected: Sequence[ToolCollection],
    former: Sequence[Tool],
) -> ToolCollection:
    own = [names[source.label] for source, names in zip(sources, labels, strict=True)]
    merged = ToolMerger(sources, own)
    infos: list[dict[str, Any]] = []
    notes: list[str] = []
    for n, one in enumerate(collected):
        known = merged.add(n, one.tools)
        new = len({tool.name for tool in one.tools}) - len(known)
        infos.append({**one.info, "tools": new, "repeated": len(one.tools) - new})
        notes += [*one.notes, *_describe_known(merged, n, known, new)]
    tools = assign_server_names(merged.sort())
    if not tools:
        raise InputError(
            "sources: no tool was found. Give a source that has tools, such as "
            "{type: python, package: numpy}."
        )
    twins = [group for source in sources for group in _read_twins(source)]
    notes += _describe_unknown(twins, tools)
    tools = _keep_unread(collected, own, tools, former, infos)
    return ToolCollection(
        mark_twins(tools, [names for _, groups in twins for names in groups]),
        {"tools": len(tools), "sources": infos},
        crawls=tuple(crawl for one in collected for crawl in one.crawls),
        problems=tuple(
            problem
            for label, one in zip(own, collected, strict=True)
            for problem in (*one.problems, *_describe_repeated(label, one))
        ),
        notes=tuple(dict.fromkeys(notes)),
        complete=not any(one.unread for one in collected),
        unread=tuple(dict.fromkeys(label for one in collected for label in one.unread)),
    )


def source_versions(sources: Sequence[SourceConfig]) -> list[str]:
    """Identify the content of each source without reading it.

    The version from its kind, and the hashes of its files in crawlers/. If any changes, the tools
    have to be collected again.
    """
    return [
        "#".join((_find(s).version(s), *(f.sha256[:16] for f in source_files([s]))))
        for s in sources
    ]


def source_licences(sources: Sequence[SourceConfig]) -> tuple[str, ...]:
    """List the licences of sources, such as "networkx 3.5: BSD-3-Clause"; an unknown one is named so."""
    found = (_find(one).licence(one) or f"{one.label}{_NO_LICENCE}" for one in sources)
    return tuple(dict.fromkeys(found))


def source_files(sources: Sequence[SourceConfig]) -> tuple[Asset, ...]:
    """The files of sources in crawlers/: which objects they read, and which tools are twins."""
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
    """The folders and files on this machine that sources name.

    Raises:
        InputError: a name is invalid.
    """
    return tuple(place for s in sources for place in _find(s).places(s))


def refuse_to_start(sources: Sequence[SourceConfig], instead: str) -> None:
    """Refuse sources whose reading starts commands; `instead` is a command that may start them.

    Raises:
        InputError: names the commands.
    """
    for source in sources:
        if lines := _find(source).starts(source):
            more = f" and {len(lines) - 1:,} more" if len(lines) > 1 else ""
            raise InputError(
                f"sources: the tools of {source.label} are not read yet. Reading them starts "
                f"{lines[0]}{more}, which this command does not do. Read them first: {instead}"
            )


def describe_keeps(sources: Sequence[SourceConfig]) -> str:
    """Describe what stays in the cache when reading these sources is interrupted, or ""."""
    return " ".join(dict.fromkeys(filter(None, (_find(s).keeps for s in sources))))


def _describe_repeated(label: str, read: ToolCollection) -> list[str]:
    """Describe the tools that a source lists more than once."""
    counts = Counter(tool.name for tool in read.tools)
    repeated = [name for name, count in counts.items() if count > 1]
    names = ", ".join(repeated[:_EXAMPLES])
    said = f"{label}: tools that are listed more than once ({len(repeated):,}), such as {names}"
    return [f"{said}; the first of each counts"] if repeated else []


def _read(
    source: SourceConfig, cache: Path, labels: Mapping[str, str]
) -> ToolCollection:
    """Read a source; its tools get the prefix and the labels of the recipe."""
    read = _find(source).read(source, cache)
    own = labels[source.label]

    def find_label(label: str) -> str:
        # Some kinds label tools with the name and version of the API.
        return own if source.name or len(labels) == 1 else labels.get(label, label)

    tools = tuple(
        tool.model_copy(update={"source": find_label(tool.source)})
        for tool in read.tools
    )
    if source.prefix:
        tools = add_prefix(tools, source.prefix)
    unread = tuple(dict.fromkeys(map(find_label, read.unread)))
    if not read.complete and not unread:
        unread = tuple(labels.values())
    lead = f"{source.label}: "
    problems, notes = (
        tuple(
            f"{own}: {line.removeprefix(lead)}" if line.startswith(lead) else line
            for line in lines
        )
        for lines in (read.problems, read.notes)
    )
    is_renamed = bool(source.name) or own != source.label
    return replace(
        read,
        tools=tools,
        info={"source": own, **read.info} | ({"source": own} if is_renamed else {}),
        problems=problems,
        notes=notes,
        unread=unread,
    )


def _keep_unread(
    collected: Sequence[ToolCollection],
    labels: Sequence[str],
    tools: Sequence[Tool],
    former: Sequence[Tool],
    infos: Sequence[dict[str, Any]],
) -> list[Tool]:
    """Add the former tools of labels that could not be read now, and count them in the infos."""
    kept = {tool.name: tool for tool in tools}
    infos_of = {
        label: info
        for read, info in zip(collected, infos, strict=True)
        for label in read.unread
    }
    unread_apis = [label for label in infos_of if label.startswith(_OPENAPI)]
    for tool in former:
        own, there = tool.sources[0], kept.get(tool.name)
        if unread_apis and own.startswith(_OPENAPI) and own not in labels:
            # Up to version 0.7.0 the label was the title of the description.
            own = unread_apis[0] if there is None else ""
        if own in infos_of and (there is None or there.sources[0] != own):
            kept[tool.name] = tool
            infos_of[own]["tools"] += 1
    return [kept[name] for name in sorted(kept)]


def _read_twins(source: SourceConfig) -> Iterator[tuple[Asset, list[list[str]]]]:
    """The files crawlers/<api>.twins of a source, with their groups of names in the bank."""
    lead = f"{source.prefix}/" if source.prefix else ""
    for file in source_files([source]):
        if file.name.endswith(_TWINS):
            yield file, [[f"{lead}{n}" for n in names] for names in read_named(file)]


def _describe_unknown(
    twins: Sequence[tuple[Asset, list[list[str]]]], tools: Sequence[Tool]
) -> Iterator[str]:
    """Describe the names without a tool in the user's own files of twins."""
    index = Bank(tuple(tools)).index
    for file, groups in twins:
        unknown = sorted({n for names in groups for n in names if n not in index})
        if file.own and unknown:
            yield (
                f"{file.path}: {count(len(unknown), 'name')} of no tool, such as "
                f"{', '.join(unknown[:_EXAMPLES])}; skipped"
            )


def _describe_known(
    merged: ToolMerger, source: int, known: Mapping[str, int], new: int
) -> list[str]:
    """Describe the tools of a source that an earlier source has, too."""
    repeated = sorted(known)
    if not repeated:
        return []
    own, sources = merged.labels[source], merged.sources
    if not new and all(sources[one] == sources[source] for one in known.values()):
        return [f"{own}: is listed as a source twice. Remove one of the entries"]
    labels = sorted({merged.labels[one] for one in known.values()})
    there = [merged.tools[name] for name in repeated if name in merged.tools]
    is_called = any(isinstance(tool.call, HttpCall | McpCall) for tool in there)
    called = ", and calls go there. To keep both, give one a `prefix`"
    return [
        f"{own}: {len(repeated):,} of its {count(new + len(known), 'tool')} "
        f"{'is' if len(repeated) == 1 else 'are'} in {', '.join(labels)} too, such as "
        f"{', '.join(repeated[:_EXAMPLES])}; each is kept once, from there"
        f"{called if is_called else ''}"
    ]


def _find(source: SourceConfig) -> SourceKind[Any]:
    return SOURCES.find(source.type, "sources")


_LONGEST_LOCATION = 200


def recognise(text: str) -> SourceConfig:
    """Return the configuration of the first kind that recognises a location.

    Nothing is started or imported. A URL may be downloaded.

    Raises:
        InputError: no kind recognises it, or the one that does refuses it.
        ToolbankError: a URL can't be read now.
    """
    location = Location(text)
    if location.is_url:
        _check_address(text)
    for name in SOURCES.names:
        kind = SOURCES.load(name)
        try:
            found: SourceConfig | None = kind.recognise(location)
        except ValidationError as error:
            raise InputError(f"{_show(location)}: {first_problem(error)}.") from error
        except InputError as error:
            if not location.is_url:
                raise
            raise InputError(f"{error} Give one of these: {list_choices()}.") from error
        if found is not None:
            return found
    if location.is_url and is_page(location.content):
        page = location.content.decode("utf-8", "replace")
        raise InputError(explain_page(page, _show(location)))
    if location.is_url:
        said = "there is nothing at this address that tools can be read from"
    elif location.path is not None:
        other = explain_other(location.content)
        if other:
            raise InputError(f"{_show(location)}: {other}")
        said = "tools cannot be read from it"
    else:
        said = "there is no such file, folder or package"
    raise InputError(f"{_show(location)}: {said}. Give one of these: {list_choices()}.")


def describe_package(text: str, chosen: str = "") -> Iterator[str]:
    """Say how to read an installed package whose name was read as something else.

    `chosen` says what it was read as, such as "recipe"; by default the folder of that name.
    """
    path = Location(text).path
    chosen = chosen or ("folder" if path and path.is_dir() else "")
    asked = f"python:{text}"
    source = SOURCES.load("python").recognise(Location(asked)) if chosen else None
    if source is not None and not (path and path.resolve() in source_places([source])):
        yield (
            f"{text} is a {chosen}, and also an installed package. This reads the {chosen}; to read "
            f"the package, give {asked}"
        )


def list_choices() -> str:
    """List what the kinds accept, in one line.

    Raises:
        InputError: a kind of another package can't be used.
    """
    kinds = map(SOURCES.load, SOURCES.names)
    return "; ".join(kind.takes for kind in kinds if kind.takes)


def _check_address(text: str) -> None:
    """Refuse a URL without a valid host or port, without repeating it: it may hold a password."""
    try:
        parts = urlsplit(text)
        is_one = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise InputError(
            "The address has no valid host or port. Give one such as "
            "https://api.example.com/openapi.json."
        )


def _show(location: Location) -> str:
    text = location.text
    if location.is_url:
        text = shown(text)
    elif location.path is None:
        try:
            words = shlex.split(text)
        except ValueError:
            words = text.split()
        text = " ".join(mask_command(["", *words])[1:])
    return one_line(text, _LONGEST_LOCATION)
