"""Merge the tools of several sources into one list, and find twins."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from toolbank.bank.bank import Bank
from toolbank.bank.records import McpCall, Tool
from toolbank.bank.twins import group_siblings, join_pairs
from toolbank.config.assets import Asset
from toolbank.sources.kind import SourceConfig
from toolbank.system.errors import InputError
from toolbank.system.terminal import one_line

# Where a tool was read and what it is called, which is no part of what is said of it.
_PLACE = {
    "name": "",
    "source": "",
    "url": "",
    "call": None,
    "aliases": (),
    "twins": (),
}
_SHOWN = 100


@dataclass
class ToolMerger:
    """Tools by name, the source that each was read from first, and whose each name or alias is.

    A source goes by its position among `sources`, and in messages by its label in `labels`.
    """

    sources: Sequence[SourceConfig]
    labels: Sequence[str]
    tools: dict[str, Tool] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, source: int, tools: Sequence[Tool]) -> dict[str, int]:
        """Take the tools of a further source, of those with one name the first.

        Gives the names of the tools that were there already, with the source that has them. A tool
        that says the same is of both sources then. Of two that say different things the first
        counts where both sources read one API, as a package and its pages do. So it is where the
        name is another one of the first; of APIs that are no such, both are tools.

        Raises:
            InputError: a tool says something else than that of another API by the same name.
        """
        known: dict[str, int] = {}
        differ: list[str] = []
        new: dict[str, Tool] = {}
        for tool in reversed(tools):
            new[tool.name] = tool
        for name, tool in new.items():
            there = self._find(source, tool)
            if there is None:
                self.tools[name] = tool
                continue
            known[name] = self.first[there.name]
            if there.name != name:
                continue
            if _are_equal(there, tool):
                self.tools[name] = _with_both_sources(there, tool)
            elif not self._read_one_api(known[name], source):
                differ.append(name)
        if differ:
            raise self._refuse(sorted(differ), known[min(differ)], source)
        for name in new.keys() - known.keys():
            self.first[name] = source
            for one in (name, *new[name].aliases):
                self.names.setdefault(one, name)
        return known

    def sort(self) -> list[Tool]:
        """The tools by name; none has another name that a tool goes by, or one before it has."""
        taken, tools = set(self.tools), []
        for name in sorted(self.tools):
            tool = self.tools[name]
            aliases = tuple(one for one in tool.aliases if one not in taken)
            taken.update(aliases)
            if aliases != tool.aliases:
                tool = tool.model_copy(update={"aliases": aliases})
            tools.append(tool)
        return tools

    def _find(self, source: int, tool: Tool) -> Tool | None:
        """The tool of an earlier source that this one is, or has the name of."""
        if tool.name in self.first:
            return self.tools[tool.name]
        for one in (tool.name, *tool.aliases):
            there = self.tools.get(self.names.get(one, ""))
            if there is not None and (
                _are_equal(there, tool)
                or self._read_one_api(self.first[there.name], source)
            ):
                return there
        return None

    def _read_one_api(self, one: int, other: int) -> bool:
        first, second = (self.sources[n].scope_name for n in (one, other))
        return first is not None and first == second

    def _refuse(self, names: list[str], one: int, other: int) -> InputError:
        more = f" (and so of {len(names) - 1:,} more)" if len(names) > 1 else ""
        name = one_line(names[0], _SHOWN)
        return InputError(
            f"sources: {self.labels[one]} and {self.labels[other]} both have a tool {name}, and "
            f"say different things of it{more}. Write `prefix: NAME` under one of them, and its "
            f"tools are called NAME/{name}."
        )


def assign_labels(
    sources: Sequence[SourceConfig], labels: Sequence[Sequence[str]]
) -> list[dict[str, str]]:
    """Map the labels of each source to those that its tools have in the bank.

    A label belongs to one place. Where sources of several places share one, each gets the end of its
    path by which they differ, as in openapi:staging/openapi.json. Without a path it gets its prefix,
    or else a hash of the place.

    Raises:
        InputError: the user has given two sources of different places one name.
    """
    owners: dict[str, list[SourceConfig]] = defaultdict(list)
    for source, own in zip(sources, labels, strict=True):
        for label in dict.fromkeys(own):
            owners[label].append(source)
    told = {
        label: _distinguish_labels(label, those)
        for label, those in owners.items()
        if len({one.place for one in those}) > 1
    }
    return [
        {label: told.get(label, {}).get(_key(source), label) for label in own}
        for source, own in zip(sources, labels, strict=True)
    ]


def assign_server_names(tools: Iterable[Tool]) -> list[Tool]:
    """The tools with another name for each MCP server that shares its own with one elsewhere."""
    tools = list(tools)
    owners: dict[str, set[str]] = defaultdict(set)
    for tool in tools:
        if isinstance(tool.call, McpCall):
            owners[tool.call.source].add(tool.sources[0])

    def rename(tool: Tool) -> Tool:
        call = tool.call
        if not isinstance(call, McpCall) or len(owners[call.source]) == 1:
            return tool
        called = tool.sources[0].partition(":")[2]
        if called != call.source and not called.endswith(f"/{call.source}"):
            called = f"{called}/{call.source}"
        renamed = call.model_copy(update={"source": called})
        return tool.model_copy(update={"call": renamed})

    return [rename(tool) for tool in tools]


def add_prefix(tools: Iterable[Tool], prefix: str) -> tuple[Tool, ...]:
    """The tools as prefix/tool, and so wherever one of them names another.

    Texts stay as they are.
    """
    tools = tuple(tools)
    own = {name for tool in tools for name in (tool.name, *tool.aliases)}
    return tuple(
        tool.model_copy(
            update={
                "name": f"{prefix}/{tool.name}",
                "aliases": tuple(f"{prefix}/{alias}" for alias in tool.aliases),
                "see_also": tuple(
                    also.model_copy(update={"name": f"{prefix}/{also.name}"})
                    if also.name in own
                    else also
                    for also in tool.see_also
                ),
            }
        )
        for tool in tools
    )


def _are_equal(one: Tool, other: Tool) -> bool:
    return _without_place(one) == _without_place(other)


def _without_place(tool: Tool) -> Tool:
    signature = tool.signature.removeprefix(tool.name)
    return tool.model_copy(update={**_PLACE, "signature": signature})


def _with_both_sources(one: Tool, other: Tool) -> Tool:
    """The first tool, with the sources of both."""
    sources = dict.fromkeys((*one.sources, *other.sources))
    return one.model_copy(update={"source": ", ".join(sources)})


def _key(source: SourceConfig) -> tuple[str, str]:
    return str(source.place), source.prefix or ""


def _distinguish_labels(
    label: str, sources: Sequence[SourceConfig]
) -> dict[tuple[str, str], str]:
    """The labels of sources that share one, by place and prefix."""
    _refuse_names(label, sources)
    kind, _, called = label.partition(":")
    paths = list(dict.fromkeys(p for s in sources if isinstance(p := s.place, Path)))
    ends = dict(zip(paths, _differing_ends(paths), strict=True))
    prefixes = Counter(prefix for _, prefix in {_key(source) for source in sources})
    told: dict[tuple[str, str], str] = {}
    for source in sources:
        place, prefix = source.place, source.prefix
        if isinstance(place, Path):
            end = ends[place]
            text = end if called == place.name else f"{end}/{called}"
        elif prefix and prefixes[prefix] == 1:
            text = f"{called} {prefix}"
        else:
            digest = hashlib.sha256(str(place).encode()).hexdigest()
            text = f"{called} {digest[:6]}"
        told[_key(source)] = f"{kind}:{text}"
    return told


def _differing_ends(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that differ, as they are seen from the last folder of them all.

    So they do not depend on where that folder is.
    """
    if not paths:
        return []
    parts = [path.parts for path in paths]
    alike = takewhile(lambda level: len({*level}) == 1, zip(*parts, strict=False))
    shared = min(len(list(alike)), *(len(one) - 1 for one in parts))
    seen = [one[shared:] for one in parts]
    for depth in range(1, max(map(len, seen)) + 1):
        ends = ["/".join(one[-depth:]) for one in seen]
        if len({*ends}) == len(ends):
            # What has no folder here may be alone some day, and its bare name another's.
            return [end if "/" in end else f"./{end}" for end in ends]
    return [str(path) for path in paths]


def _refuse_names(label: str, sources: Sequence[SourceConfig]) -> None:
    if not any(source.name for source in sources):
        return
    one, other, *_ = {source.place: source for source in sources}.values()
    raise InputError(
        f"sources: {_show_place(one)} and {_show_place(other)} are both called {label}, so that "
        "calls and filters could not tell them apart. Write another `name: NAME` under one of them."
    )


def _show_place(source: SourceConfig) -> str:
    """The place for a message, without the query of an address, which may hold a secret."""
    place = source.place
    text = str(place) if isinstance(place, Path) else place.partition("?")[0]
    return one_line(text.replace("\0", " ") or source.label, _SHOWN)


# "isnull is an alias for isna", "This is an alias method for isna", or a text that begins with
# "Alias of isna".
_ALIAS = re.compile(
    r"(?:^(?:Returns? )?|(?P<subject>[\w.]*\w)(?:\([^()]*\))? is (?:an? )?)"
    r"(?:an? )?(?:\w+ )?alias(?: \w+)? (?:for|of) (?P<object>[\w.]*\w)",
    re.IGNORECASE,
)
_ITSELF = {"this", "it", "function", "method", "class", "property", "attribute"}


def mark_twins(
    tools: Sequence[Tool], named: Sequence[Sequence[str]] = ()
) -> tuple[Tool, ...]:
    """The tools, each with the names of all its twins, in the order of the tools.

    Twins are siblings (`group_siblings`) with the same summary and parameters, a tool and the one
    that a text of either calls its alias, and those of a line of `named`; and the twins of a twin.
    Names that no tool has are passed over.
    """
    index = Bank(tuple(tools)).index
    pairs = [
        *_pair_siblings(tools, index),
        *_pair_aliases(tools, index),
        *(
            (index[line[0]], index[name])
            for line in ([name for name in names if name in index] for names in named)
            for name in line[1:]
        ),
    ]
    first = join_pairs(len(tools), pairs)
    groups: dict[int, list[str]] = {}
    for tool, number in zip(tools, first, strict=True):
        groups.setdefault(number, []).append(tool.name)
    return tuple(
        tool.model_copy(
            update={"twins": tuple(n for n in groups[number] if n != tool.name)}
        )
        for tool, number in zip(tools, first, strict=True)
    )


def find_aliases(tools: Sequence[Tool]) -> dict[str, str]:
    """The names of tools that a text of theirs, or of the other, calls an alias of another tool.

    With the other's name. Where each is called one of the other, the first keeps its name.
    """
    found: dict[str, str] = {}
    for one, other in _pair_aliases(tools, Bank(tuple(tools)).index):
        alias, name = tools[one].name, tools[other].name
        if alias != name and found.get(name) != alias:
            found[alias] = name
    return found


def read_named(file: Asset) -> list[list[str]]:
    """The lines of crawlers/<api>.twins: names of tools that are twins; after # nothing counts.

    Raises:
        InputError: it can't be read, or a line has one name alone.
    """
    try:
        text = file.path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{file.path}: can't be read ({error}).") from error
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    for number, names in enumerate(lines, 1):
        if len(names) == 1:
            raise InputError(
                f"{file.path}, line {number}: {names[0]} stands alone. Give all names of the "
                "tools that no request can tell apart, with spaces between."
            )
    return [names for names in lines if names]


def _pair_siblings(
    tools: Sequence[Tool], index: Mapping[str, int]
) -> Iterator[tuple[int, int]]:
    for group in (group for group in group_siblings(tools) if len(group) > 1):
        first: dict[str, int] = {}
        # Of those without a summary nothing says what they do.
        for tool in (one for one in group if one.summary.strip()):
            position = index[tool.name]
            parameters = json.dumps(tool.parameters, sort_keys=True)
            yield first.setdefault(parameters, position), position


def _pair_aliases(
    tools: Sequence[Tool], index: Mapping[str, int]
) -> Iterator[tuple[int, int]]:
    for position, tool in enumerate(tools):
        texts = (tool.summary, tool.description, tool.notes)
        for text in (text for text in texts if "alias" in text.lower()):
            for found in _ALIAS.finditer(" ".join(text.split())):
                subject = found["subject"] or "this"
                one = (
                    position
                    if subject.lower() in _ITSELF
                    else _resolve(subject, tool, index)
                )
                other = _resolve(found["object"], tool, index)
                if one is not None and other is not None and position in (one, other):
                    yield one, other


def _resolve(name: str, tool: Tool, index: Mapping[str, int]) -> int | None:
    """The tool that a text of another names, looked for from its class or module outwards."""
    around = tool.name.split(".")[:-1]
    for depth in range(len(around), -1, -1):
        found = index.get(".".join((*around[:depth], name)))
        if found is not None:
            return found
    return None
