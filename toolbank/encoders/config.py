"""Settings of encoders, and the description of a kind of encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from toolbank.config.base import NAME_OR_PATH, Config, Transport

if TYPE_CHECKING:
    from toolbank.llm.config import SearchModelConfig

PREFIXES = ("query_prefix", "document_prefix")


class EncoderConfig(Config):
    """The settings of an encoder; the `type` of a subclass, a `Literal`, names its kind."""

    trains: ClassVar[bool] = False
    """Whether a retriever can fine-tune it."""

    is_remote: ClassVar[bool] = False
    """Whether its model is at an endpoint, so that it needs none on this machine."""

    named_by_content: ClassVar[bool] = False
    """Whether the content of its folder never changes, so that it is read only once."""

    type: str
    model: str = Field(
        description="hub name or folder (./name, /path)",
        json_schema_extra=NAME_OR_PATH,
    )
    batch_size: int = Field(default=64, ge=1, description="texts embedded at once")
    executor: Transport[Literal["local", "ray"]] = Field(
        default="local",
        description=(
            "local: embed in this process; ray: in workers of a cluster (but an encoder "
            "that was fine-tuned in this process embeds here)"
        ),
    )
    workers: Transport[int] = Field(
        default=1, ge=1, le=4096, description="processes of `executor: ray`"
    )

    @property
    def label(self) -> str:
        """The name for messages: the model's name or folder."""
        return self.model

    @property
    def models(self) -> tuple[SearchModelConfig, ...]:
        """The models at endpoints that it calls."""
        return ()

    def name_retriever(self, label: str) -> None:
        """Set the retriever that messages name, if it has messages."""

    @model_validator(mode="after")
    def _have_workers_a_cluster(self) -> Self:
        if self.workers > 1 and self.executor == "local":
            raise ValueError(
                f"workers: {self.workers} needs `executor: ray`; add it, or remove workers"
            )
        return self

    def as_query(self, text: str) -> str:
        """Return the text to embed for a query."""
        return text

    def as_document(self, text: str) -> str:
        """Return the text to embed for a description."""
        return text


class PrefixedConfig(EncoderConfig):
    """An encoder that puts a prefix before each text; `state_prompts` sets unset ones."""

    query_prefix: str | None = Field(
        default=None,
        description='before each query, such as "query: "; unset: the model\'s own prompt',
    )
    document_prefix: str | None = Field(
        default=None,
        description="before each description; unset: the model's own prompt",
    )

    def as_query(self, text: str) -> str:
        """Put the prefix before a query."""
        return (self.query_prefix or "") + text

    def as_document(self, text: str) -> str:
        """Put the prefix before a description."""
        return (self.document_prefix or "") + text

    def with_prefixes(self, own: Mapping[str, Any]) -> Self:
        """Set the prefixes that are unset to those of a model."""
        keys = [key for key in PREFIXES if getattr(self, key) is None]
        return self.model_copy(update={key: own.get(key) for key in keys})


Precision = Literal["fp32", "int8", "as it is"]
"""The number format of an exported network; "as it is" copies one that is ONNX already."""


@dataclass(frozen=True)
class EncoderKind:
    """A kind of encoder: its settings, and its class as "module:Class".

    The class is imported on first use, so the module of the settings can stay light.
    """

    config: type[EncoderConfig]
    encoder: str

    def find_class(self) -> Any:
        """Import the class of its encoders."""
        return resolve_name(self.encoder)


class OnnxConfig(PrefixedConfig):
    """An encoder in ONNX format, such as the one of a packed finder."""

    named_by_content: ClassVar[bool] = True

    type: Literal["onnx"]
    model: str = Field(
        description="folder (./name, /path) with model.onnx, tokenizer.json and onnx.json"
    )


ONNX = EncoderKind(OnnxConfig, "toolbank.encoders.onnx:OnnxEncoder")
