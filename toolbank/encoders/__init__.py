"""Encoders: text to vectors."""

from __future__ import annotations

from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Annotated

from toolbank.config.registry import Registry, TaggedUnion
from toolbank.encoders.config import EncoderConfig, EncoderKind
from toolbank.encoders.location import Stamp, find_folder, locate, stamp_files

if TYPE_CHECKING:
    from toolbank.encoders.base import Encoder

ENCODERS = Registry(
    "encoder",
    "toolbank.encoders",
    EncoderKind,
    {
        "sentence": "toolbank.encoders.sentence:KIND",
        "layers": "toolbank.papers.layers:KIND",
        "endpoint": "toolbank.encoders.endpoint_config:KIND",
        "onnx": "toolbank.encoders.config:ONNX",
    },
)

AnyEncoder = Annotated[
    EncoderConfig, TaggedUnion(ENCODERS, default="sentence", text="model")
]
"""The type of a setting for any encoder; a string is the name of a sentence encoder."""

_KEPT = 3
_LOADING = Lock()


def load_encoder(config: EncoderConfig) -> Encoder:
    """Load the encoder of a configuration, or reuse it if its files have not changed.

    Raises:
        InputError: there is no such model, or it cannot be downloaded or read.
    """
    from toolbank.encoders.model import state_prompts

    config = state_prompts(config)
    name = locate(config)
    folder = None if config.named_by_content else find_folder(name)
    # Concurrent threads read it once.
    with _LOADING:
        return _load(name, config, stamp_files(folder) if folder else ())


@lru_cache(maxsize=_KEPT)
def _load(name: str, config: EncoderConfig, _: tuple[Stamp, ...]) -> Encoder:
    kind = ENCODERS.find(config.type, "encoder")
    encoder: Encoder = kind.find_class().read(name, config)
    if config.executor == "ray":
        from toolbank.encoders.workers import embed_by_workers

        encoder.embed_elsewhere = partial(embed_by_workers, name)
    return encoder
