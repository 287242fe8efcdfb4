"""Configuration of the text encoders."""

from pydantic import Field

from toolbank.config.base import Config
from toolbank.config.paths import NAME_OR_PATH

DEFAULT_MODEL = "all-MiniLM-L6-v2"


class EncoderConfig(Config):
    """A sentence-transformers model and what is put before its inputs."""

    model: str = Field(
        default=DEFAULT_MODEL,
        description="hub name of a sentence encoder, or its folder, as ./name or /path",
        json_schema_extra=NAME_OR_PATH,
    )
    query_prefix: str = Field(default="", description='such as "query: " for E5')
    document_prefix: str = Field(default="", description='such as "passage: "')
    batch_size: int = Field(default=64, ge=1, description="texts embedded at once")
