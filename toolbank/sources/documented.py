"""What a docstring says, before it is put together with what introspection knows."""

from dataclasses import dataclass, replace

from toolbank.bank import Raised, Returned, SeeAlso, VersionNote
from toolbank.sources.schema import Parameter


@dataclass(frozen=True)
class Documented:
    """The parts of a docstring, as plain text.

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

    def with_opening(
        self, signature: str, summary: str, description: str, deprecated: str
    ) -> "Documented":
        """The same with what was read from the docstring's prose."""
        return replace(
            self,
            signature=signature,
            summary=summary,
            description=description,
            deprecated=deprecated,
            prose=None,
        )
