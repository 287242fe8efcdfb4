"""Merge the tools of several sources into one list, and find twins.

Terms: *aliases* are other names of one tool. *Twins* are different tools that no request can tell
apart. *Siblings* are members of several classes with the same name and summary.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path

from toolbank.bank.bank import Bank
from toolbank.bank.records import McpCall, Tool, group_siblings, join_pairs
from toolbank.config.assets import Asset
from toolbank.sources.kind import SourceConfig
from toolbank.system.errors import InputError
from toolbank.system.files import read_text
from toolbank.system.terminal import one_line

# The fields that may differ between two sources of an equal tool.
_PLACE = {"name": "", "source": "", "url": "", "call": None, "aliases": (), "twins": ()}
_SHOWN = 100


@dataclass
class ToolMerger:
    """Merges tools: `tools` by name, `first` the source of each, `names` the owner of each alias.

    A source is a position in `sources`; messages use its label in `labels`.
    """

    sources: Sequence[SourceConfig]
    labels: Sequence[str]
    tools: dict[str, Tool] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(self, source: int, tools: Sequence[Tool]) -> dict[str, int]:
        """Add the tools of a source; return the known ones by name, with the source that has them.

        Equal tools are merged, with both sources. Of two different tools of one API, as of a package
        and its pages, the first counts; so does the first if only an alias is common. Different tools
        of different APIs stay two tools.

        Raises:
            InputError: two different tools of different APIs have the same name.
        """
        known: dict[str, int] = {}
        differ: list[str] = []
        new = {tool.name: tool for tool in reversed(tools)}
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
        """Sort the tools by name, and remove aliases that another tool has."""
        taken, tools = set(self.tools), []
        for name in sorted(self.tools):
            tool = self.tools[name]
            aliases = tuple(one for one in tool.aliases if one not in taken)
            taken.update(aliases)
            tools.append(tool.model_copy(update={"aliases": aliases}))
        return tools

    def _find(self, source: int, tool: Tool) -> Tool | None:
        """Find the tool of an earlier source with the same name or, if equal, a common alias."""
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
        more = f" (and {len(names) - 1:,} more)" if len(names) > 1 else ""
        name = one_line(names[0], _SHOWN)
        return InputError(
            f"sources: {self.labels[one]} and {self.labels[other]} have different tools named "
            f"{name}{more}. Write `prefix: NAME` under one of them: its tools are then named "
            f"NAME/{name}."
        )


def assign_labels(
    sources: Sequence[SourceConfig], labels: Sequence[Sequence[str]]
) -> list[dict[str, str]]:
    """Map the labels of each source to those that its tools have in the bank.

    A label belongs to one place. If sources of several places share a label, each gets the end of
    its path that differs, as in openapi:staging/openapi.json, or else its prefix, or a hash of its
    place.

    Raises:
        InputError: the user gave two sources of different places the same name.
    """
    owners: dict[str, list[SourceConfig]] = defaultdict(list)
    for source, own in zip(sources, labels, strict=True):
        for label in dict.fromkeys(own):
            owners[label].append(source)
    distinct = {
        label: _distinguish_labels(label, those)
        for label, those in owners.items()
        if len({one.place for one in those}) > 1
    }
    return [
        {label: distinct.get(label, {}).get(_key(source), label) for label in own}
        for source, own in zip(sources, labels, strict=True)
    ]


def assign_server_names(tools: Iterable[Tool]) -> list[Tool]:
    """Rename MCP servers in the calls of tools if another source has a server of the same name."""
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
    """Rename tools to prefix/tool, also in the references between them; texts do not change."""
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
    sources = dict.fromkeys((*one.sources, *other.sources))
    return one.model_copy(update={"source": ", ".join(sources)})


def _key(source: SourceConfig) -> tuple[str, str]:
    return str(source.place), source.prefix or ""


def _distinguish_labels(
    label: str, sources: Sequence[SourceConfig]
) -> dict[tuple[str, str], str]:
    """Label sources that share a label, by place and prefix."""
    _refuse_names(label, sources)
    kind, _, called = label.partition(":")
    paths = list(dict.fromkeys(p for s in sources if isinstance(p := s.place, Path)))
    ends = dict(zip(paths, _differing_ends(paths), strict=True))
    prefixes = Counter(prefix for _, prefix in {_key(source) for source in sources})
    distinct: dict[tuple[str, str], str] = {}
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
        distinct[_key(source)] = f"{kind}:{text}"
    return distinct


def _differing_ends(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that differ, relative to their last common folder.

    They do not depend on where that folder is.
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
            # A bare name could be the label of another file of that name elsewhere.
            return [end if "/" in end else f"./{end}" for end in ends]
    return [str(path) for path in paths]


def _refuse_names(label: str, sources: Sequence[SourceConfig]) -> None:
    if not any(source.name for source in sources):
        return
    one, other, *_ = {source.place: source for source in sources}.values()
    raise InputError(
        f"sources: {_show_place(one)} and {_show_place(other)} are both named {label}, so calls and "
        "filters could not distinguish them. Write another `name: NAME` under one of them."
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
    """Set the twins of each tool; the order stays.

    Twins are siblings (`group_siblings`) with the same summary and parameters, two tools of which a
    text says that one is an alias of the other, the tools of a group of `named`, and twins of twins.
    Unknown names are skipped.
    """
    index = Bank(tuple(tools)).index
    pairs = [*_pair_siblings(tools, index), *_pair_aliases(tools, index)]
    for names in named:
        pairs += pairwise(index[name] for name in names if name in index)
    first = join_pairs(len(tools), pairs)
    groups: dict[int, list[str]] = defaultdict(list)
    for tool, number in zip(tools, first, strict=True):
        groups[number].append(tool.name)
    return tuple(
        tool.model_copy(
            update={"twins": tuple(n for n in groups[number] if n != tool.name)}
        )
        for tool, number in zip(tools, first, strict=True)
    )


def find_aliases(tools: Sequence[Tool]) -> dict[str, str]:
    """Map tools to the tool that they are an alias of, according to a text of either.

    If each is an alias of the other, the first keeps its name.
    """
    found: dict[str, str] = {}
    for one, other in _pair_aliases(tools, Bank(tuple(tools)).index):
        alias, name = tools[one].name, tools[other].name
        if alias != name and found.get(name) != alias:
            found[alias] = name
    return found


def read_named(file: Asset) -> list[list[str]]:
    """Read crawlers/<api>.twins: a line per group of twins; # starts a comment.

    Raises:
        InputError: it can't be read, or a line has only one name.
    """
    text = read_text(file.path)
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    for number, names in enumerate(lines, 1):
        if len(names) == 1:
            raise InputError(
                f"{file.path}, line {number}: {names[0]} has no twin. List all tools that no request "
                "can tell apart, separated by spaces."
            )
    return [names for names in lines if names]


def _pair_siblings(
    tools: Sequence[Tool], index: Mapping[str, int]
) -> Iterator[tuple[int, int]]:
    for group in (group for group in group_siblings(tools) if len(group) > 1):
        first: dict[str, int] = {}
        # Without a summary it is unknown what they do.
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
                one: int | None = position
                if subject.lower() not in _ITSELF:
                    one = _resolve(subject, tool, index)
                other = _resolve(found["object"], tool, index)
                if one is not None and other is not None and position in (one, other):
                    yield one, other


def _resolve(name: str, tool: Tool, index: Mapping[str, int]) -> int | None:
    """Find the tool that a text of another tool names, from its class or module outwards."""
    around = tool.name.split(".")[:-1]
    for depth in range(len(around), -1, -1):
        found = index.get(".".join((*around[:depth], name)))
        if found is not None:
            return found
    return None
