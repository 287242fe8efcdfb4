"""Which model a configuration means: that of a name, of a folder, or what a run has fine-tuned."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.sentence.config import SentenceConfig
from toolbank.system.errors import InputError
from toolbank.system.files import read_json
from toolbank.system.outputs import is_run_folder

TUNED = "encoder"
"""Where a fine-tuned encoder lies in its retriever's folder."""


def locate(config: EncoderConfig) -> str:
    """The name or the folder of its model, as `load_model` takes it.

    Raises:
        InputError: there is no such run, or it has not tuned the encoder that is meant, has tuned
            several where none is named, or with other prefixes.
    """
    if not isinstance(config, SentenceConfig) or config.run is None:
        return config.model
    folder = _find_tuned(config.run, config.retriever)
    _check_prefixes(config, folder)
    return str(folder.resolve() / TUNED)


def _find_tuned(run: Path, label: str) -> Path:
    """The folder of the retriever with a fine-tuned encoder, by its label if one is given."""
    if not is_run_folder(run):
        raise InputError(
            f"encoder.run: {run} is not the folder of a run. Give one in which an encoder was "
            "fine-tuned."
        )
    folders = sorted((run / "models").glob("[!.]*"))
    fitted = {folder.name: folder for folder in folders if folder.is_dir()}
    tuned = {name: path for name, path in fitted.items() if (path / TUNED).is_dir()}
    if not fitted:
        raise InputError(
            f"encoder.run: {run} has fitted no retriever yet. First: toolbank run {run}"
        )
    if label and label not in tuned:
        lacks = (
            "of which no encoder was tuned" if label in fitted else "not fitted there"
        )
        raise InputError(
            f"encoder.retriever: {label} of {run}: {lacks}. {_name(tuned)}"
        )
    if not tuned:
        raise InputError(
            f"encoder.run: {run} has fine-tuned no encoder ({', '.join(fitted)} have none of their "
            "own). Give one of its retrievers `training: {}`, or name another run."
        )
    if len(tuned) > 1 and not label:
        raise InputError(
            f"encoder.run: {run} has tuned several. Say whose by `retriever`, beside `run`. "
            f"{_name(tuned)}"
        )
    return tuned[label] if label else next(iter(tuned.values()))


def _name(labels: Iterable[str]) -> str:
    return f"Those with one: {', '.join(labels) or 'none'}."


def _check_prefixes(config: SentenceConfig, retriever: Path) -> None:
    """Refuse other prefixes than those with which the encoder was tuned."""
    settings = read_json(retriever / "config.json")
    tuned_from = settings.get("encoder") if isinstance(settings, dict) else None
    for key in ("query_prefix", "document_prefix"):
        given = getattr(config, key)
        learned = tuned_from.get(key, "") if isinstance(tuned_from, dict) else ""
        if given != learned:
            raise InputError(
                f"encoder.{key}: {given!r}, and that of {retriever} was tuned with {learned!r}. "
                "Give the same."
            )
