"""What the configurations of all methods have in common."""

from pydantic import Field

from toolbank.config.base import Config


class MethodConfig(Config):
    """A retriever of a recipe; `type` says which method."""

    type: str
    name: str = Field(
        default="",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]*)?$",
        description="in tables, and of its folder; unset: the type",
    )

    @property
    def label(self) -> str:
        """What tables, folders and other retrievers of the recipe call it."""
        return self.name or self.type

    @property
    def needs(self) -> tuple[str, ...]:
        """Labels of the retrievers that it builds on."""
        return ()

    @property
    def needs_vectors(self) -> str:
        """Which of `needs` has to have vectors of tools; "" if none."""
        return ""
