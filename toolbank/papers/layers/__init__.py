"""The hidden states of a language model as vectors of texts."""

from typing import Literal

from pydantic import Field, field_validator

from toolbank.encoders.config import EncoderConfig, EncoderKind
from toolbank.papers.experiment import ONE_WORD, TEXT, Pooling


class LayersConfig(EncoderConfig):
    """The hidden states of any language model of transformers, causal or masked."""

    type: Literal["layers"]
    layer: int = Field(
        default=-1,
        description="0: the token embeddings; 1: the output of the first layer; -1: of the last",
    )
    pooling: Pooling = Field(
        default="mean",
        description=(
            "how token states become one vector; mean, sum: their mean or sum; last: the "
            "state of the last token (causal models); mask: the state of a mask token after"
            " the prompt (masked models)"
        ),
    )
    prompt: str = Field(
        default=TEXT,
        description=f"template around each text; for the pooling `last`, such as '{ONE_WORD}'",
    )
    max_length: int = Field(default=512, ge=1, description="tokens per text")
    batch_size: int = Field(default=16, ge=1, description="texts embedded at once")

    @field_validator("prompt")
    @classmethod
    def _has_place(cls, prompt: str) -> str:
        if prompt.count(TEXT) != 1:
            raise ValueError(f"must contain {TEXT} once, where the text goes")
        return prompt


KIND = EncoderKind(LayersConfig, "toolbank.papers.layers.encoder:LayersEncoder")
