"""Settings of an encoder at an endpoint: `type: endpoint`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, JsonValue, PrivateAttr

from toolbank.config.base import PATH_IN_RUN
from toolbank.encoders.config import EncoderKind, PrefixedConfig
from toolbank.llm.config import SearchModelConfig


class EndpointConfig(SearchModelConfig, PrefixedConfig):
    """An embedding model at an endpoint (`/v1/embeddings`): embeds texts, and can't be trained."""

    named_by_content: ClassVar[bool] = True
    is_remote: ClassVar[bool] = True
    call_steps: ClassVar[tuple[str, ...]] = ("embed",)
    only_engine: ClassVar[str] = "toolbank.encoders.endpoint:EMBEDDINGS"
    # Settings of chat engines, which a recipe cannot set here.
    engine: ClassVar[str] = "embeddings"  # type: ignore[misc]
    temperature: ClassVar[None] = None  # type: ignore[misc]
    max_tokens: ClassVar[int] = 1  # type: ignore[misc]
    options: ClassVar[dict[str, JsonValue]] = {}  # type: ignore[misc]
    executor: ClassVar[Literal["local"]] = "local"  # type: ignore[misc]
    workers: ClassVar[int] = 1  # type: ignore[misc]

    type: Literal["endpoint"]
    model: str = Field(min_length=1, description="name of the model at the endpoint")
    dimensions: int | None = Field(
        default=None,
        ge=1,
        description="length of the vectors, for models that can shorten them; unset: not sent",
    )
    replies: Path = Field(
        default=Path("embeddings.sqlite"),
        description="journal of the calls in the run folder",
        json_schema_extra=PATH_IN_RUN,
    )

    _retriever: str = PrivateAttr("NAME")

    def __hash__(self) -> int:
        """Hash all settings, some of which are mappings."""
        return hash(self.model_dump_json())

    def __eq__(self, other: object) -> bool:
        """Compare all settings, whichever retriever has them."""
        if not isinstance(other, EndpointConfig):
            return False
        return self.model_dump_json() == other.model_dump_json()

    def name_retriever(self, label: str) -> None:
        """Set the retriever that messages name."""
        self._retriever = label

    @property
    def models(self) -> tuple[SearchModelConfig, ...]:
        """Itself."""
        return (self,)

    @property
    def section(self) -> str:  # type: ignore[override]
        """The section of the recipe, for messages."""
        return f"retrievers.{self._retriever}.encoder"

    @property
    def kept(self) -> str:
        """What stays after an interrupt, for messages."""
        return "The vectors that came are kept"


KIND = EncoderKind(EndpointConfig, "toolbank.encoders.endpoint:EndpointEncoder")
