"""What a kind of encoder is to the rest of the program: its settings, and where its class lies."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from toolbank.encoders.config import EncoderConfig

if TYPE_CHECKING:
    from toolbank.encoders.encoder import Encoder


@dataclass(frozen=True)
class EncoderKind:
    """A kind of encoder: the model of its settings, and its class, as "module:Class".

    The class is imported when it is used; the settings' module imports nothing heavy.
    """

    config: type[EncoderConfig]
    encoder: str

    def find_class(self) -> type[Encoder]:
        """The class of its encoders."""
        module, _, name = self.encoder.partition(":")
        found: type[Encoder] = getattr(import_module(module), name)
        return found
