"""What a docstring or a page says, before it is put together with what else is known."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from toolbank.bank.records import (
    Raised,
    Returned,
    SeeAlso,
    Tool,
    ToolKind,
    VersionChange,
    VersionNote,
)
from toolbank.sources.schema.parameters import Parameter, parameters_schema

VERSION_CHANGES: dict[str, VersionChange] = {
    "versionadded": "added",
    "versionchanged": "changed",
    "deprecated": "deprecated",
    "deprecated-removed": "deprecated",
    "versionremoved": "removed",
}
"""What a directive of Sphinx, or the class of its element on a page, says of a version."""

_SENTENCE_END = re.compile(r"(?<=[^.\s][^.\s][.!?])\s+(?=[A-Z\"'`(])")
_MAX_SUMMARY = 120


@dataclass(frozen=True)
class Documented:
    """The parts of a docstring or page, as plain text.

    `prose` is what stands outside the sections of a style that mixes the two; None where the
    prose is all that stands before the first section.
    """

    signature: str = ""
    summary: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    returns: tuple[Returned, ...] = ()
    raises: tuple[Raised, ...] = ()
    notes: str = ""
    examples: str = ""
    see_also: tuple[SeeAlso, ...] = ()
    deprecated: str = ""
    versions: tuple[VersionNote, ...] = ()
    prose: str | None = None

    def as_tool(
        self,
        name: str,
        kind: ToolKind,
        signature: str,
        parameters: Iterable[Parameter],
        source: str = "",
    ) -> Tool:
        """The tool that is described so, with the parameters that it was found to have."""
        return Tool(
            name=name,
            kind=kind,
            summary=self.summary,
            description=self.description,
            signature=signature,
            parameters=parameters_schema(parameters),
            returns=self.returns,
            raises=self.raises,
            versions=self.versions,
            examples=self.examples,
            notes=self.notes,
            see_also=self.see_also,
            deprecated=self.deprecated,
            source=source,
        )


def split_summary(paragraph: str) -> tuple[str, str]:
    """The first paragraph as a summary, and "" or, where it is long, all but its first sentence."""
    line = " ".join(paragraph.split())
    if len(line) <= _MAX_SUMMARY:
        return line, ""
    summary, *rest = _SENTENCE_END.split(line, maxsplit=1)
    return summary, "".join(rest)
