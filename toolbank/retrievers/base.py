"""The base of every retriever: fit, search, add, remove, save, load, pack."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from inspect import get_annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

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
from toolbank.retrievers.stored import AGAIN, Stored, demand
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, read_text, sha256_file, write_json
from toolbank.system.version import __version__
from toolbank.training.card import read_card, write_card
from toolbank.training.config import TrainingContext

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


def title_and_summary(tool: Tool) -> str:
    """The text whose embedding stands for a tool: its name and its summary."""
    gist = tool.summary or tool.description
    return f"{tool.name}: {gist}" if gist else tool.name


def full_text(tool: Tool) -> str:
    """Name, summary, description, and the parameters with what is said of them.

    What a dense retriever reads of an API in ToolBench (arXiv 2307.16789, section 3.2).
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
    """The text that BM25 indexes: name, the words in the name, summary, description."""
    words = _SEPARATOR.sub(" ", _HUMP.sub(" ", tool.name))
    return "\n".join((tool.name, words, tool.summary, tool.description))


LAYOUT = 2
"""Of the files of a saved retriever; those of another can't be read."""

CONFIG, _TOOLS = "config.json", "tools.json"


def write_head(folder: Path, config: RetrieverConfig, tools: Sequence[str]) -> None:
    """Write the settings and the tools' names."""
    settings = config.model_dump(mode="json")
    write_json(folder / CONFIG, {"layout": LAYOUT, **settings})
    write_json(folder / _TOOLS, list(tools))


def is_retriever(folder: Path) -> bool:
    """Whether a folder holds a saved retriever."""
    return (folder / CONFIG).is_file()


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of a saved retriever, as they are written; its `type` among them.

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


def read_config(
    folder: Path, kind: type[RetrieverConfig], settings: dict[str, Any]
) -> RetrieverConfig:
    """The settings as a method's configuration.

    Raises:
        InputError: they are none.
    """
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()
        )
        raise InputError(
            f"{folder / CONFIG}: not a {kind.__name__} ({wrong}). {AGAIN}"
        ) from error


def read_tools(folder: Path) -> tuple[str, ...]:
    """The tools' names.

    Raises:
        InputError: the file is missing or damaged.
    """
    names = read_json(folder / _TOOLS)
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    demand(is_list, folder / _TOOLS, "not a list of names")
    return tuple(names)


ENCODERS = "encoders"
_ENCODER = re.compile(rf"/{ENCODERS}/([0-9a-f]{{16}})\"")
_NAMED = "onnx-encoder.json"


@dataclass(frozen=True)
class Packing:
    """A pack in the making: its folder, and the precision that networks are written in.

    What several retrievers share, as an encoder, lies in `root` once. `networks` are the folders
    of those written, one for each time that a retriever asked for it. With `find_copy`, an encoder
    is named by its weights, and copied if `find_copy` knows a folder for that name.
    """

    root: Path
    precision: Precision
    find_copy: Callable[[str], Path | None] | None = None
    networks: list[Path] = field(default_factory=list)
    _encoders: dict[Encoder, Path] = field(default_factory=dict)

    def write_encoder(self, encoder: Encoder, folder: Path) -> OnnxConfig:
        """Write an encoder as ONNX, unless it is there; its settings in a retriever's folder.

        Raises:
            InputError: an encoder of its kind can't be written so.
        """
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
        """Write an encoder, and in a retriever's folder which it is, for `read_encoder`."""
        config = self.write_encoder(encoder, folder)
        write_json(folder / _NAMED, config.model_dump(mode="json"))


def _name_by_weights(encoder: Encoder) -> str:
    weights = f"{__version__} {encoder_identity(encoder.config)}"
    return hashlib.sha256(weights.encode()).hexdigest()[:16]


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


@dataclass(frozen=True)
class FitContext(TrainingContext):
    """What a fit is given beside the bank.

    `fitted` are the retrievers that its configuration needs, by label.
    """

    fitted: Mapping[str, Retriever] = field(default_factory=dict)


ALONE = FitContext()

Asks = Mapping[str, Sequence[str]]
"""Requests for one tool each, by the tool's name."""


class Retriever(Stored, ABC):
    """Finds the tools that a request needs.

    `tools` are the names of the tools it was fitted on, in the order of the indices that
    `search` gives. `card` is the text of its model card, if it was trained.

    A method is a subclass with `fit`, `search` and `extend`. It annotates the attributes that
    a fit sets, and declares those to be saved in `arrays` and `texts`; what is neither, as a
    network is, it writes in `save_parts` and reads in `load_parts`. To read an annotated one
    before a fit has set it is an error that says so.
    """

    config: RetrieverConfig
    tools: tuple[str, ...]
    card: str = ""
    _hashed: tuple[tuple[str, ...], Order] | None = None

    def __init__(self, config: RetrieverConfig) -> None:
        self.config = config

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say of an attribute that a fit sets that there was none.

            Raises:
                InputError: it is one of those.
            """
            if any(name in get_annotations(kind) for kind in type(self).__mro__):
                raise InputError(
                    f"{self.name}: not fitted yet. First: toolbank train RUN."
                )
            raise AttributeError(f"{type(self).__name__} has no {name!r}")

    @property
    def name(self) -> str:
        """What tables and folders call it."""
        return self.config.label

    @property
    def built_on(self) -> Mapping[str, Retriever]:
        """The retrievers that it builds on, by their labels."""
        return {}

    @abstractmethod
    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Learn from the bank's tools and from its `train_queries`, which its asks are among.

        Queries of split "validation" may decide when to stop and which checkpoint is the best;
        others are not looked at.
        """

    @abstractmethod
    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        Scores fall from left to right; tools of the same score stand as `draw_ties` has it, so
        that the order of the tools makes no difference. Where a request has fewer hits, its
        row is filled up with -1 and -inf.
        """

    def draw_ties(self, queries: Sequence[str]) -> Ties:
        """Which of two tools of the same score comes first, for each of these requests."""
        hashed = self._hashed
        if hashed is None or hashed[0] is not self.tools:
            self._hashed = hashed = self.tools, hash_texts(self.tools)
        return Ties(hash_texts(queries), hashed[1])

    @abstractmethod
    def extend(self, tools: Sequence[Tool]) -> None:
        """Make tools found, by their descriptions, that were not there in the fit.

        Their indices follow those of the others. Nothing is trained. `add_tools` has looked at
        their names, calls this on a shallow copy of a retriever that goes on being searched, and
        adds them to the copy's `tools` afterwards: attributes are set anew, and nothing that
        they hold is changed.
        """

    def take_asks(self, asked: Relevance) -> None:
        """Have tools found by requests for them, too, that were not there in the fit.

        Nothing is trained. `add_tools` calls this after `extend`, on the same copy; the tools
        are those added. A method that learns of tools by training alone leaves it as it is.
        """

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Have these tools alone found, given by their positions, and in this order.

        As `extend`, it is called on a shallow copy, whose `tools` are set afterwards. What is
        declared with the length "tools" first is cut here; a method that has more does the rest.
        """
        self.keep_rows("tools", rows)

    def add_tools(self, tools: Sequence[Tool], asks: Asks | None = None) -> Self:
        """One that finds these tools, too, by their descriptions; this one stays as it is.

        `asks` has requests for some of them, by the tools' names: what a method makes of them is
        said by its `take_asks`.

        Raises:
            InputError: one of the tools is there already, or is given twice; or asks are of none
                of them.
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
        """One that finds all tools but these; this one stays as it is.

        Raises:
            InputError: there is no tool of one of these names.
        """
        known, gone = set(self.tools), set(names)
        for name in names:
            if name not in known:
                raise InputError(
                    f"{name}: can't be removed, because no tool here is called so."
                )
        return self.pick_tools([i for i, n in enumerate(self.tools) if n not in gone])

    def pick_tools(self, places: Sequence[int]) -> Self:
        """One that finds these tools alone, by their positions, and has them in this order."""
        names = tuple(self.tools[place] for place in places)
        picked = copy(self)
        picked.keep(np.array(places, dtype=np.int64))
        picked.tools = names
        return picked

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """Hits for every train query as of a retriever that has not seen it.

        What a second stage is trained on: in the order of the bank's train queries, two arrays
        [n_train, k]. `bank` is the one that this retriever was fitted on. Unless a method knows
        better, it and what it builds on are fitted anew without a part of the queries at a time.
        """

        def fit(part: Bank, within: FitContext) -> Search:
            return self.fit_anew(part, within).search

        return cross_fit(self.name, fit, bank, k, context, self.config.folds)

    def fit_anew(self, bank: Bank, context: FitContext) -> Retriever:
        """One of the same settings, fitted with what it builds on on this bank alone."""
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
        """Write what `load_retriever` needs to search without torch, and nothing else.

        Encoders are written as ONNX; a method with a network of its own writes that so, too.

        Raises:
            InputError: it can't be packed.
        """
        packed = copy(self)
        packed.config = self.pack_config(folder, packing)
        packed.card = ""
        write_head(folder, packed.config, packed.tools)
        packed.save_state(folder)
        packed.pack_parts(folder, packing)

    def pack_config(self, folder: Path, packing: Packing) -> RetrieverConfig:
        """The settings with encoders as ONNX, which are written if they are not there yet."""
        encoders = {
            name: packing.write_encoder(load_encoder(value), folder)
            for name, value in self.config
            if isinstance(value, EncoderConfig) and value in self.config.encoders
        }
        return self.config.model_copy(update=encoders)

    def pack_parts(self, folder: Path, packing: Packing) -> None:  # noqa: ARG002
        """As `save_parts`, without torch."""
        self.save_parts(folder)

    def load(self, folder: Path, tools: tuple[str, ...]) -> None:
        """Take over what `save` wrote of these tools; `load_retriever` calls it.

        Raises:
            InputError: a file is missing or damaged.
        """
        self.tools, self.card = tools, read_card(folder)
        self.load_state(folder, {"tools": len(tools)})
        self.load_parts(folder)

    def save_parts(self, folder: Path) -> None:
        """Write what is neither an array nor texts."""

    def load_parts(self, folder: Path) -> None:
        """Read what `save_parts` wrote, and make what follows from the arrays and texts.

        Raises:
            InputError: a file is missing or damaged.
        """


def _read_asks(asks: Asks, tools: Sequence[Tool], names: tuple[str, ...]) -> Relevance:
    """Asks for tools as requests with labels: positions among `names`."""
    added = {tool.name for tool in tools}
    for name in asks:
        if name not in added:
            raise InputError(
                f"asks: {name} is none of the tools that are added. Add it with them, or leave "
                "its asks out."
            )
    given = tuple(
        Ask(tool=name, kind="", ask=ask)
        for name, texts in asks.items()
        for ask in texts
    )
    new = Bank(tuple(Tool(name=name) for name in names), asks=given)
    return train_relevance(new)


def _join_tool_names(known: Sequence[str], added: Sequence[Tool]) -> tuple[str, ...]:
    found, given = set(known), set[str]()
    for tool in added:
        if tool.name in given:
            raise InputError(f"{tool.name}: is given twice. Leave one of the two out.")
        if tool.name in found:
            raise InputError(
                f"{tool.name}: can't be added, because a tool of that name is there already. "
                "Leave it out, or take the other away first: remove_tools([name])."
            )
        given.add(tool.name)
    return (*known, *(tool.name for tool in added))
