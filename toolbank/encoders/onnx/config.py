"""Configuration of the encoders that run as ONNX."""

from typing import ClassVar, Literal

from pydantic import Field

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.kind import EncoderKind


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


KIND = EncoderKind(OnnxConfig, "toolbank.encoders.onnx.encoder:OnnxEncoder")
