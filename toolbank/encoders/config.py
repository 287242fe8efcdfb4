"""What the settings of every kind of encoder have."""

from typing import ClassVar

from pydantic import Field

from toolbank.config.base import Config
from toolbank.config.paths import NAME_OR_PATH


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

    @property
    def label(self) -> str:
        """What people call it: the model's name or folder."""
        return self.model

    def as_query(self, text: str) -> str:
        """What is embedded of a request."""
        return text

    def as_document(self, text: str) -> str:
        """What is embedded of a description."""
        return text
