"""Settings of encoders, and how a kind of encoder describes itself."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from toolbank.config.base import NAME_OR_PATH, Config, Transport


class EncoderConfig(Config):
    """The settings of an encoder; a subclass's `type`, a `Literal`, says of which kind."""

    trains: ClassVar[bool] = False
    """Whether a retriever can fine-tune it."""

    named_by_content: ClassVar[bool] = False
    """Whether its folder never holds anything else: it is not looked at again once it was read."""

    type: str
    model: str = Field(
        description="hub name of a model, or its folder, as ./name or /path",
        json_schema_extra=NAME_OR_PATH,
    )
    batch_size: int = Field(default=64, ge=1, description="texts embedded at once")
    executor: Transport[Literal["local", "ray"]] = Field(
        default="local",
        description="where many texts are embedded. local: in this process; ray: in workers of a "
        "cluster; fine-tuned ones of this process stay in it",
    )
    workers: Transport[int] = Field(
        default=1, ge=1, le=4096, description="of `executor: ray`, a process each"
    )

    @property
    def label(self) -> str:
        """What people call it: the model's name or folder."""
        return self.model

    @model_validator(mode="after")
    def _have_workers_a_cluster(self) -> Self:
        if self.workers > 1 and self.executor == "local":
            raise ValueError(
                f"workers: {self.workers} is for `executor: ray`; add that, or leave workers out"
            )
        return self

    def as_query(self, text: str) -> str:
        """What is embedded of a request."""
        return text

    def as_document(self, text: str) -> str:
        """What is embedded of a description."""
        return text


Precision = Literal["fp32", "int8", "as it is"]
"""In how many bits the numbers of a network are, and of which kind; one that is ONNX has its own."""


@dataclass(frozen=True)
class EncoderKind:
    """A kind of encoder: the model of its settings, and its class, as "module:Class".

    The class is imported when it is used; the settings' module imports nothing heavy.
    """

    config: type[EncoderConfig]
    encoder: str

    def find_class(self) -> Any:
        """The class of its encoders."""
        module, _, name = self.encoder.partition(":")
        return getattr(import_module(module), name)


class OnnxConfig(EncoderConfig):
    """An encoder that was written as ONNX, such as one of a packed finder."""

    named_by_content: ClassVar[bool] = True

    type: Literal["onnx"]
    model: str = Field(
        description="a folder with model.onnx, tokenizer.json and onnx.json, as ./name or /path"
    )
    query_prefix: str = Field(default="", description="before each request")
    document_prefix: str = Field(default="", description="before each description")

    def as_query(self, text: str) -> str:
        """The request behind its prefix."""
        return self.query_prefix + text

    def as_document(self, text: str) -> str:
        """The description behind its prefix."""
        return self.document_prefix + text


ONNX = EncoderKind(OnnxConfig, "toolbank.encoders.onnx:OnnxEncoder")
