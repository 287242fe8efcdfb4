"""The tools of several sources as one list: names with prefixes, and names in common."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from toolbank.bank.records import Tool
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
class Merged:
    """Tools by name, the source that each was read from first, and whose each name or alias is."""

    tools: dict[str, Tool] = field(default_factory=dict)
    first: dict[str, SourceConfig] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def add(
        self, source: SourceConfig, tools: Sequence[Tool]
    ) -> dict[str, SourceConfig]:
        """Take the tools of a further source, of those with one name the first.

        Gives the names of the tools that were there already, with the source that has them. A tool
        that says the same is of both sources then. Of two that say different things the first
        counts where both sources read one API, as a package and its pages do. So it is where the
        name is another one of the first; of APIs that are no such, both are tools.

        Raises:
            InputError: a tool says something else than that of another API by the same name.
        """
        known: dict[str, SourceConfig] = {}
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
            if _say_same(there, tool):
                self.tools[name] = _of_both(there, tool)
            elif not _read_one_api(known[name], source):
                differ.append(name)
        if differ:
            raise _refuse(sorted(differ), known[min(differ)], source)
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

    def _find(self, source: SourceConfig, tool: Tool) -> Tool | None:
        """The tool of an earlier source that this one is, or has the name of."""
        if tool.name in self.first:
            return self.tools[tool.name]
        for one in (tool.name, *tool.aliases):
            there = self.tools.get(self.names.get(one, ""))
            if there is not None and (
                _say_same(there, tool) or _read_one_api(self.first[there.name], source)
            ):
                return there
        return None


def with_prefix(tools: Iterable[Tool], prefix: str) -> tuple[Tool, ...]:
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


def _say_same(one: Tool, other: Tool) -> bool:
    return _without_place(one) == _without_place(other)


def _without_place(tool: Tool) -> Tool:
    signature = tool.signature.removeprefix(tool.name)
    return tool.model_copy(update={**_PLACE, "signature": signature})


def _of_both(one: Tool, other: Tool) -> Tool:
    """The first tool, with the sources of both."""
    sources = dict.fromkeys((*one.source.split(", "), *other.source.split(", ")))
    return one.model_copy(update={"source": ", ".join(sources)})


def _read_one_api(one: SourceConfig, other: SourceConfig) -> bool:
    return one.scope_name is not None and one.scope_name == other.scope_name


def _refuse(names: list[str], one: SourceConfig, other: SourceConfig) -> InputError:
    more = f" (and so of {len(names) - 1:,} more)" if len(names) > 1 else ""
    name = one_line(names[0], _SHOWN)
    return InputError(
        f"sources: {one.label} and {other.label} both have a tool {name}, and say different "
        f"things of it{more}. Write `prefix: NAME` under one of them, and its tools are called "
        f"NAME/{name}."
    )
