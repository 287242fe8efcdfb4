"""The banks that are given, read and measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.bank import Bank
from toolbank.datasets import DATASETS, find_format
from toolbank.datasets.jsonl import read_query_lines
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.requests.quality.measure import Quality, add_dispersion, measure_quality
from toolbank.system.errors import InputError
from toolbank.system.outputs import is_run_folder
from toolbank.system.terminal import one_line, print_message

if TYPE_CHECKING:
    from toolbank.encoders.base import Encoder

_LONGEST = 200


def measure_banks(
    paths: Sequence[Path], seed: int, embeds: bool
) -> list[tuple[str, Quality]]:
    """The name and the figures of each bank, in the order given; what is left out goes to stderr.

    Without an encoder that can be loaded, there is no dispersion.

    Raises:
        InputError: nothing of a known form is there, a file is damaged, or has no request.
    """
    banks = [read_bank(path) for path in paths]
    encoder = _load() if embeds else None
    found = []
    for name, bank in zip(_name(paths), banks, strict=True):
        quality = measure_quality(bank, seed)
        if encoder is not None:
            label = encoder.config.label
            quality = add_dispersion(quality, bank, encoder.encode_queries, label, seed)
        found.append((name, quality))
    return found


def read_bank(path: Path) -> Bank:
    """The bank of a run, the dataset of a folder, or the requests of a JSONL file, without tools.

    Raises:
        InputError: nothing of a known form is there, a file is damaged, or has no request.
    """
    if path.is_file():
        bank = Bank((), tuple(read_query_lines(path)))
        print_message(
            f"toolbank: {path}: requests alone. What hangs on tools is not measured; put them "
            "beside it, as tools.jsonl and queries.jsonl of a folder."
        )
    elif (path / "bank.json").is_file():
        bank = Bank.load(path)
    elif (path / "bank").is_dir() or is_run_folder(path):
        bank = Bank.load(path / "bank")
    else:
        config = find_format(path)
        dataset = DATASETS.load(config.type).read(config)
        for reason, number in sorted(dataset.left_out.counts.items()):
            print_message(
                f"toolbank: {path}: {number:,} left out: {one_line(reason, _LONGEST)}"
            )
        bank = Bank(dataset.tools, dataset.queries, {}, dataset.asks)
    if not bank.queries:
        raise InputError(f"{path}: no request in it that needs a tool.")
    return bank


def _load() -> Encoder | None:
    try:
        return load_encoder(SentenceConfig())
    except InputError as error:
        print_message(
            f"toolbank: without dispersion and topics, as nothing embeds the requests: {error}"
        )
        return None


def _name(paths: Sequence[Path]) -> list[str]:
    """The last part of each path, or all of it where another has the same."""
    last = [path.stem if path.is_file() else path.resolve().name for path in paths]
    return [
        name if last.count(name) == 1 else str(path)
        for name, path in zip(last, paths, strict=True)
    ]
