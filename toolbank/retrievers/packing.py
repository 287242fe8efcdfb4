"""What a retriever is told when it is packed."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from toolbank.config.explain import read_checked
from toolbank.encoders import load_encoder
from toolbank.encoders.base import Encoder, EncoderConfig, Precision
from toolbank.encoders.onnx import OnnxConfig
from toolbank.retrievers.head import CONFIG
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.system.files import read_text, sha256_file, write_json

ENCODERS = "encoders"
_ENCODER = re.compile(rf"/{ENCODERS}/([0-9a-f]{{16}})\"")
_NAMED = "onnx-encoder.json"


@dataclass(frozen=True)
class Packing:
    """A pack in the making: its folder, and the precision that networks are written in.

    What several retrievers share, as an encoder, lies in `root` once. `networks` are the folders
    of those written, one for each time that a retriever asked for it.
    """

    root: Path
    precision: Precision
    networks: list[Path] = field(default_factory=list)
    _encoders: dict[Encoder, Path] = field(default_factory=dict)

    def write_encoder(self, encoder: Encoder, folder: Path) -> OnnxConfig:
        """Write an encoder as ONNX, unless it is there; its settings in a retriever's folder.

        Raises:
            InputError: an encoder of its kind can't be written so.
        """
        if encoder not in self._encoders:
            place = self.root / ENCODERS / f"new-{len(self._encoders)}"
            encoder.export(place, self.precision)
            named = place.with_name(sha256_file(place / "model.onnx")[:16])
            if not named.exists():
                place.rename(named)
            self._encoders[encoder] = named
        self.networks.append(self._encoders[encoder])
        config = encoder.config
        return OnnxConfig(
            type="onnx",
            model=os.path.relpath(self._encoders[encoder], folder),
            query_prefix=config.as_query(""),
            document_prefix=config.as_document(""),
            batch_size=config.batch_size,
        )

    def name_encoder(self, encoder: Encoder, folder: Path) -> None:
        """Write an encoder, and in a retriever's folder which it is, for `read_encoder`."""
        config = self.write_encoder(encoder, folder)
        write_json(folder / _NAMED, config.model_dump(mode="json"))

    def pack_encoders(self, config: RetrieverConfig, folder: Path) -> RetrieverConfig:
        """A retriever's settings with its encoders, as they are, as ONNX."""
        encoders = {
            name: self.write_encoder(load_encoder(value), folder)
            for name, value in config
            if isinstance(value, EncoderConfig) and value in config.encoders
        }
        return config.model_copy(update=encoders)


def read_encoder(folder: Path) -> OnnxConfig:
    """The settings of the encoder that `name_encoder` named.

    Raises:
        InputError: the file is missing or damaged.
    """
    config = read_checked(folder / _NAMED, OnnxConfig)
    return _beside(config, folder)


def list_encoders(folder: Path) -> set[str]:
    """The names of the encoders that a packed retriever shares with others.

    Raises:
        InputError: one of its files can't be read.
    """
    heads = [path for name in (CONFIG, _NAMED) for path in folder.rglob(name)]
    return {name for path in heads for name in _ENCODER.findall(read_text(path))}


def find_packed(config: RetrieverConfig, folder: Path) -> RetrieverConfig:
    """A retriever's settings with the encoders that were packed beside its folder."""
    found = {
        name: _beside(value, folder)
        for name, value in config
        if isinstance(value, OnnxConfig) and not Path(value.model).is_absolute()
    }
    return config.model_copy(update=found) if found else config


def _beside(config: OnnxConfig, folder: Path) -> OnnxConfig:
    place = str((folder / config.model).resolve())
    return config.model_copy(update={"model": place})
