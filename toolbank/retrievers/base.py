"""The base of every retriever: fit, search, add, remove, save, load, pack."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from inspect import get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, Order, Ties, hash_texts
from toolbank.bank.records import Ask, Tool
from toolbank.config.explain import read_checked
from toolbank.encoders import load_encoder
from toolbank.encoders.base import Encoder
from toolbank.encoders.config import EncoderConfig, OnnxConfig, Precision
from toolbank.encoders.location import encoder_identity
from toolbank.retrievers.crossfit import Search, cross_fit
from toolbank.retrievers.kind import RetrieverConfig
from toolbank.retrievers.relevance import Relevance, train_relevance
from toolbank.retrievers.stored import AGAIN, Stored, demand, load_texts
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, read_text, sha256_file, write_json
from toolbank.system.version import __version__
from toolbank.training.card import read_card, write_card
from toolbank.training.config import TrainingContext

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


def title_and_summary(tool: Tool) -> str:
    """Return the text that is embedded for a tool: name and summary."""
    gist = tool.summary or tool.description
    return f"{tool.name}: {gist}" if gist else tool.name


def full_text(tool: Tool) -> str:
    """Return name, summary, description, and the described parameters.

    As the dense retriever of ToolBench (arXiv 2307.16789, section 3.2).
    """
    parts = [title_and_summary(tool)]
    if tool.summary and tool.description:
        parts.append(tool.description)
    properties = tool.parameters.get("properties", {})
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        said = schema.get("description", "") if isinstance(schema, dict) else ""
        parts.append(f"{name}: {said}" if said else name)
    return "\n".join(parts)


def all_words(tool: Tool) -> str:
    """Return the text that BM25 indexes: name, words of the name, summary, description."""
    words = split_words(tool.name)
    return "\n".join((tool.name, words, tool.summary, tool.description))


def split_words(name: str) -> str:
    """Return the words of a name, such as "nan to num" or "Data Frame"."""
    return _SEPARATOR.sub(" ", _HUMP.sub(" ", name))


LAYOUT = 2
"""Layout of the files of a saved retriever; other layouts are refused."""

CONFIG, _TOOLS = "config.json", "tools.json"


def write_head(folder: Path, config: RetrieverConfig, tools: Sequence[str]) -> None:
    """Write the settings and the tool names."""
    settings = config.model_dump(mode="json")
    write_json(folder / CONFIG, {"layout": LAYOUT, **settings})
    write_json(folder / _TOOLS, list(tools))


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the settings of a saved retriever, with its `type`.

    Raises:
        InputError: the file is missing or damaged, or of another layout.
    """
    path = folder / CONFIG
    content = read_json(path)
    is_head = isinstance(content, dict) and isinstance(content.get("type"), str)
    demand(is_head, path, 'no "type" in it')
    if content.pop("layout", None) != LAYOUT:
        raise InputError(f"{folder}: saved by another version of toolbank. {AGAIN}")
    return dict(content)


def read_tools(folder: Path) -> tuple[str, ...]:
    """Read the tool names.

    Raises:
        InputError: the file is missing or damaged.
    """
    return load_texts(folder / _TOOLS)


ENCODERS = "encoders"
_ENCODER = re.compile(rf"/{ENCODERS}/([0-9a-f]{{16}})\"")
_NAMED = "onnx-encoder.json"


@dataclass(frozen=True)
class Packing:
    """Writes the networks of a pack below `root`, in one precision.

    An encoder that several retrievers share is written once. `networks` lists the folder of each
    requested network. With `find_copy`, an encoder is named by its weights, and copied if
    `find_copy` knows a folder of that name.
    """

    root: Path
    precision: Precision
    find_copy: Callable[[str], Path | None] | None = None
    networks: list[Path] = field(default_factory=list)
    _encoders: dict[Encoder, Path] = field(default_factory=dict)

    def write_encoder(self, encoder: Encoder, folder: Path) -> EncoderConfig:
        """Write an encoder as ONNX, once, and return its settings relative to `folder`.

        One at an endpoint is not written, and keeps its address.

        Raises:
            InputError: an encoder of its kind cannot be exported.
        """
        if settings := encoder.settings_in_pack():
            return settings
        if encoder not in self._encoders:
            place = self.root / ENCODERS / f"new-{len(self._encoders)}"
            name = _name_by_weights(encoder) if self.find_copy else ""
            if self.find_copy and (known := self.find_copy(name)):
                shutil.copytree(known, place)
            else:
                encoder.export(place, self.precision)
            named = place.with_name(name or sha256_file(place / "model.onnx")[:16])
            shutil.rmtree(named, ignore_errors=True)
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
        """Write an encoder, and its settings to a retriever's folder for `read_encoder`."""
        config = self.write_encoder(encoder, folder)
        write_json(folder / _NAMED, config.model_dump(mode="json"))


def _name_by_weights(encoder: Encoder) -> str:
    weights = f"{__version__} {encoder_identity(encoder.config)}"
    return hashlib.sha256(weights.encode()).hexdigest()[:16]


def read_encoder(folder: Path) -> OnnxConfig:
    """Read the settings that `name_encoder` wrote.

    Raises:
        InputError: the file is missing or damaged.
    """
    config = read_checked(folder / _NAMED, OnnxConfig)
    return _resolve_model(config, folder)


def list_encoders(folder: Path) -> set[str]:
    """List the names of the shared encoders of a packed retriever.

    Raises:
        InputError: one of its files cannot be read.
    """
    heads = [path for name in (CONFIG, _NAMED) for path in folder.rglob(name)]
    return {name for path in heads for name in _ENCODER.findall(read_text(path))}


def find_packed(config: RetrieverConfig, folder: Path) -> RetrieverConfig:
    """Resolve the paths of packed encoders in a retriever's settings."""
    found = {
        name: _resolve_model(value, folder)
        for name, value in config
        if isinstance(value, OnnxConfig) and not Path(value.model).is_absolute()
    }
    return config.model_copy(update=found) if found else config


def _resolve_model(config: OnnxConfig, folder: Path) -> OnnxConfig:
    place = str((folder / config.model).resolve())
    return config.model_copy(update={"model": place})


@dataclass(frozen=True)
class FitContext(TrainingContext):
    """What a fit needs in addition to the bank.

    `fitted` holds the retrievers that its configuration needs, by label.
    """

    fitted: Mapping[str, Retriever] = field(default_factory=dict)


ALONE = FitContext()

Asks = Mapping[str, Sequence[str]]
"""Single-tool queries by the name of the tool."""


class Retriever(Stored, ABC):
    """Finds the tools that a request needs.

    `tools` are the names of its tools, in the order of the indices that `search` returns. `card`
    is the text of its model card, if it was trained.

    A method is a subclass with `fit`, `search` and `extend`. It annotates the attributes that a
    fit sets, and declares those to save in `arrays` and `texts`. It writes everything else, such
    as a network, in `save_parts` and reads it in `load_parts`.
    """

    config: RetrieverConfig
    tools: tuple[str, ...]
    card: str = ""
    _hashed: tuple[tuple[str, ...], Order] | None = None

    def __init__(self, config: RetrieverConfig) -> None:
        self.config = config

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Explain that an annotated attribute is missing because there was no fit.

            Raises:
                InputError: the attribute is set by a fit.
            """
            if any(name in get_annotations(kind) for kind in type(self).__mro__):
                raise InputError(
                    f"{self.name}: not fitted yet. First: toolbank train RUN."
                )
            raise AttributeError(f"{type(self).__name__} has no {name!r}")

    @property
    def name(self) -> str:
        """Its label in tables, and the name of its folder."""
        return self.config.label

    @property
    def built_on(self) -> Mapping[str, Retriever]:
        """The retrievers that it builds on, by their labels."""
        return {}

    def check_encoder(self) -> None:
        """Refuse an encoder that it cannot be fitted on, before any fit begins.

        Raises:
            InputError: what is wrong with the encoder, and what to do.
        """

    @abstractmethod
    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Learn from the bank's tools and its `train_queries`, asks included.

        Validation queries may decide when to stop and which checkpoint is the best. No other
        queries are read.
        """

    @abstractmethod
    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        Scores fall from left to right. `draw_ties` orders tools of the same score, so the order
        of the tools makes no difference. A row with fewer hits is padded with -1 and -inf.
        """

    def draw_ties(self, queries: Sequence[str]) -> Ties:
        """Draw the order of tools of the same score for each query."""
        hashed = self._hashed
        if hashed is None or hashed[0] is not self.tools:
            self._hashed = hashed = self.tools, hash_texts(self.tools)
        return Ties(hash_texts(queries), hashed[1])

    @abstractmethod
    def extend(self, tools: Sequence[Tool]) -> None:
        """Add tools by their descriptions, without training; their indices come last.

        `add_tools` checks their names, calls this on a shallow copy, and sets the copy's `tools`
        afterwards. The original may be in use: replace attributes, do not modify what they hold.
        """

    def take_asks(self, asked: Relevance) -> None:
        """Use queries for added tools, without training; by default they are ignored.

        `add_tools` calls this after `extend`, on the same copy.
        """

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Keep only the tools at these positions, in this order.

        As `extend`, it is called on a shallow copy, whose `tools` are set afterwards. The base
        cuts what is declared with the first length "tools"; a method cuts everything else.
        """
        self.keep_rows("tools", rows)

    def add_tools(self, tools: Sequence[Tool], asks: Asks | None = None) -> Self:
        """Return a copy that also finds these tools, by their descriptions.

        `asks` are queries for some of them, by tool name; `take_asks` of a method uses them.

        Raises:
            InputError: a tool exists already or is given twice, or an ask is for another tool.
        """
        names = _join_tool_names(self.tools, tools)
        asked = _read_asks(asks or {}, tools, names)
        grown = copy(self)
        grown.extend(tools)
        grown.tools = names
        if asked.queries:
            grown.take_asks(asked)
        return grown

    def remove_tools(self, names: Sequence[str]) -> Self:
        """Return a copy that does not find these tools.

        Raises:
            InputError: there is no tool of one of these names.
        """
        gone = set(names)
        if unknown := gone.difference(self.tools):
            raise InputError(
                f"{min(unknown)}: there is no tool of this name to remove."
            )
        return self.pick_tools([i for i, n in enumerate(self.tools) if n not in gone])

    def pick_tools(self, places: Sequence[int]) -> Self:
        """Return a copy with only the tools at these positions, in this order."""
        names = tuple(self.tools[place] for place in places)
        picked = copy(self)
        picked.keep(np.array(places, dtype=np.int64))
        picked.tools = names
        return picked

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Return held-out hits for every train query: two arrays [n_train, k].

        A second stage is trained on them. `bank` is the one that this retriever was fitted on.
        By default, the retriever and its stages are cross-fitted.
        """

        def fit(part: Bank, within: FitContext) -> Search:
            return self.fit_anew(part, within).search

        return cross_fit(self.name, fit, bank, k, context, self.config.folds)

    def fit_anew(self, bank: Bank, context: FitContext) -> Retriever:
        """Fit a retriever of the same settings, and its stages, on another bank."""
        fitted = {
            label: self.built_on[label].fit_anew(bank, context.within(label))
            for label in self.config.needs
        }
        anew = type(self)(self.config)
        anew.fit(bank, replace(context, fitted=fitted))
        return anew

    def save(self, folder: Path) -> None:
        """Write all that `load_retriever` needs."""
        write_head(folder, self.config, self.tools)
        self.save_state(folder)
        self.save_parts(folder)
        write_card(folder, self.card)

    def pack(self, folder: Path, packing: Packing) -> None:
        """Write only what `load_retriever` needs to search without torch.

        Encoders and networks are written as ONNX.

        Raises:
            InputError: it cannot be packed.
        """
        packed = copy(self)
        packed.config = self.pack_config(folder, packing)
        packed.card = ""
        write_head(folder, packed.config, packed.tools)
        packed.save_state(folder)
        packed.pack_parts(folder, packing)

    def pack_config(self, folder: Path, packing: Packing) -> RetrieverConfig:
        """Write the encoders as ONNX, and return the settings that name them."""
        encoders = {
            name: packing.write_encoder(load_encoder(value), folder)
            for name, value in self.config
            if isinstance(value, EncoderConfig) and value in self.config.encoders
        }
        return self.config.model_copy(update=encoders)

    def pack_parts(self, folder: Path, packing: Packing) -> None:  # noqa: ARG002
        """Write what `save_parts` writes in a form that needs no torch."""
        self.save_parts(folder)

    def load(self, folder: Path, tools: tuple[str, ...]) -> None:
        """Read what `save` wrote of these tools; `load_retriever` calls it.

        Raises:
            InputError: a file is missing or damaged.
        """
        self.tools, self.card = tools, read_card(folder)
        self.load_state(folder, {"tools": len(tools)})
        self.load_parts(folder)

    def save_parts(self, folder: Path) -> None:
        """Write what is neither an array nor a text."""

    def load_parts(self, folder: Path) -> None:
        """Read what `save_parts` wrote, and build what follows from the arrays and texts.

        Raises:
            InputError: a file is missing or damaged.
        """


def _read_asks(asks: Asks, tools: Sequence[Tool], names: tuple[str, ...]) -> Relevance:
    """Asks for added tools as labelled queries, with positions in `names`."""
    if other := asks.keys() - {tool.name for tool in tools}:
        raise InputError(
            f"asks: {min(other)} is none of the tools to be added. Add it too, or remove its asks."
        )
    given = tuple(
        Ask(tool=name, kind="", ask=ask)
        for name, texts in asks.items()
        for ask in texts
    )
    new = Bank(tuple(Tool(name=name) for name in names), asks=given)
    return train_relevance(new)


def _join_tool_names(known: Sequence[str], added: Sequence[Tool]) -> tuple[str, ...]:
    there = set(known)
    for name, times in Counter(tool.name for tool in added).items():
        if times > 1:
            raise InputError(f"{name}: is given twice. Add it only once.")
        if name in there:
            raise InputError(
                f"{name}: cannot be added, because a tool of this name is there already. Remove "
                "it first: remove_tools([name])."
            )
    return (*known, *(tool.name for tool in added))
