"""Configuration of the sentence encoders."""

from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from toolbank.config.base import NAME_OR_PATH, Transport
from toolbank.encoders.config import EncoderConfig, EncoderKind

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class SentenceConfig(EncoderConfig):
    """A sentence-transformers model and what is put before its inputs.

    A name alone stands for the model of that name.
    """

    model_config = ConfigDict(
        json_schema_extra={"type": ["object", "string"], **NAME_OR_PATH}
    )
    trains: ClassVar[bool] = True

    # Left out of what shapes a result: runs that are older than the key stay as they are.
    type: Transport[Literal["sentence"]] = "sentence"
    model: str = Field(
        default=DEFAULT_MODEL,
        description="hub name of a sentence encoder, or its folder, as ./name or /path; toolbank: "
        "the default one with the adapter that comes along",
        json_schema_extra=NAME_OR_PATH,
    )
    run: Path | None = Field(
        default=None,
        description="in place of model: a run's folder, for the encoder that it has fine-tuned",
    )
    retriever: Transport[str] = Field(
        default="", description="of that run; needed where it has tuned several"
    )
    query_prefix: str = Field(default="", description='such as "query: " for E5')
    document_prefix: str = Field(default="", description='such as "passage: "')
    batch_size: int = Field(default=64, ge=1, description="texts embedded at once")

    @property
    def label(self) -> str:
        """What people call it: the model's name or folder, or the run's folder."""
        return self.model if self.run is None else str(self.run)

    def as_query(self, text: str) -> str:
        """The request behind its prefix."""
        return self.query_prefix + text

    def as_document(self, text: str) -> str:
        """The description behind its prefix."""
        return self.document_prefix + text

    @model_validator(mode="after")
    def _names_one(self) -> Self:
        if self.run is not None and self.model != DEFAULT_MODEL:
            raise ValueError(
                "`run` takes the place of `model`; leave one of the two out"
            )
        if self.retriever and self.run is None:
            raise ValueError("`retriever` is one of a run; say which by `run`")
        return self


KIND = EncoderKind(SentenceConfig, "toolbank.encoders.model:SentenceEncoder")
