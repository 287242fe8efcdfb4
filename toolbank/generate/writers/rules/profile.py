"""What the reference says about each tool, as phrases that a request can be made of."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from toolbank.bank.records import Tool
from toolbank.generate.affinity import split_name
from toolbank.generate.see_also import find_name, index_names
from toolbank.generate.writers.rules.english import Phrase, read_phrase, split_sentences
from toolbank.generate.writers.rules.glossary import load_glossary, weigh_terms
from toolbank.generate.writers.rules.lexicon import VERBS

_Reader = Callable[[str], Phrase | None]


@dataclass(frozen=True)
class Profile:
    """One tool's phrases, the glossary entries that it is about, and its parameters' meanings.

    `told` are the phrases and their weights; `terms` the entries, most telling first. A tool that
    `takes_data` is of a library of arrays or tables, and is asked of such; no other tool is.
    """

    told: tuple[tuple[Phrase, float], ...]
    terms: tuple[tuple[int, float], ...]
    choices: tuple[str, ...]
    takes_data: bool = True

    @property
    def is_silent(self) -> bool:
        """Whether nothing can be said of the tool."""
        return not self.asked and all(phrase.kind == "fact" for phrase, _ in self.told)

    @property
    def asked(self) -> list[tuple[str, ...]]:
        """What people ask who need the terms that the tool is about, most telling first."""
        entries = load_glossary().entries
        return [entries[n].asks for n, _ in self.terms if entries[n].asks]


class Profiles:
    """The profiles of all tools by position, each made when it is asked for.

    What others' see-also lists say of a tool counts too. A bank of a thousand queries deals a few
    thousand tools, and reading one takes milliseconds.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools
        self._mentions = _collect_mentions(tools)
        self._coined = _find_coined(tools)
        self._takes_data = _find_data_takers(tools)
        glossary = load_glossary()
        self._found = [
            weigh_terms(_weigh_texts(tool), glossary) if takes_data else {}
            for tool, takes_data in zip(tools, self._takes_data, strict=True)
        ]
        self._spread = Counter(entry for terms in self._found for entry in terms)
        self._made: dict[int, Profile] = {}

    def __getitem__(self, position: int) -> Profile:
        if position not in self._made:
            self._made[position] = self._make(position)
        return self._made[position]

    def _make(self, position: int) -> Profile:
        tool, takes_data = self._tools[position], self._takes_data[position]
        reader = partial(_read_sentence, tool, self._coined, takes_data)
        terms = (
            (entry, weight * math.log(1 + len(self._tools) / self._spread[entry]))
            for entry, weight in self._found[position].items()
        )
        return Profile(
            tuple(_read_phrases(tool, self._mentions[position], reader)),
            tuple(sorted(terms, key=lambda term: (-term[1], term[0]))),
            tuple(_read_choices(tool, reader)),
            takes_data,
        )


def _find_data_takers(tools: Sequence[Tool]) -> list[bool]:
    """Whether each is of a library of arrays or tables: the glossary's words are about such."""
    libraries = [_name_library(tool) for tool in tools]
    sizes = Counter(libraries)
    speak = Counter(
        library
        for tool, library in zip(tools, libraries, strict=True)
        if any(map(_DATA.search, _list_texts(tool)))
    )
    return [bool(one) and speak[one] >= _LEAST_DATA * sizes[one] for one in libraries]


def _name_library(tool: Tool) -> str:
    """What a tool that is called in a program is imported from; "" for operations of services."""
    is_remote = tool.call is not None and tool.call.type != "python"
    top, dot, _ = tool.name.partition(".")
    return top if dot and tool.kind != "operation" and not is_remote else ""


def _list_texts(tool: Tool) -> list[str]:
    properties = tool.parameters.get("properties", {}).values()
    words = [str(schema.get("description", "")) for schema in properties]
    return [tool.summary, tool.description, *words]


def _weigh_texts(tool: Tool) -> dict[str, float]:
    return {
        tool.description[:400]: 0.6,
        " ".join(tool.name.split(".")[1:-1]): 1.0,
        tool.summary: 2.0,
        split_name(tool.name): 3.0,
    }


def _collect_mentions(tools: Sequence[Tool]) -> list[list[str]]:
    """What the see-also lists of other tools say about each tool."""
    index = index_names(tools)
    mentions: list[list[str]] = [[] for _ in tools]
    for tool in tools:
        for other in tool.see_also:
            position = find_name(other.name, tool, index)
            if position is not None and other.description:
                mentions[position].append(other.description)
    return mentions


def _read_phrases(
    tool: Tool, mentions: Sequence[str], reader: _Reader
) -> list[tuple[Phrase, float]]:
    sources = [
        (split_sentences(tool.summary)[:2], 4.0),
        ([s for m in mentions for s in split_sentences(m)[:1]], 3.0),
        (split_sentences(tool.description)[:6], 1.5),
        (split_sentences(tool.notes)[:4], 0.5),
        (
            [
                s
                for value in tool.returns
                for s in split_sentences(value.description)[:1]
            ],
            0.5,
        ),
    ]
    phrases: dict[Phrase, float] = {}
    for sentences, weight in sources:
        for sentence in sentences:
            phrase = reader(sentence)
            if phrase is not None:
                phrases.setdefault(phrase, weight)
    return list(phrases.items())


def _read_sentence(
    tool: Tool, coined: frozenset[str], takes_data: bool, sentence: str
) -> Phrase | None:
    """A sentence's phrase, unless it leans on names that only the API's readers know."""
    package = tool.name.split(".", 1)[0]
    text = re.sub(rf"\b{re.escape(package)}(?:'s)?\b ?", "", sentence, flags=re.I)
    for name in tool.parameters.get("properties", {}) if takes_data else ():
        if name != "a" and len(name) < 4:
            text = re.sub(rf"(?<![\w`-]){re.escape(name)}(?![\w`-])", "the input", text)
    phrase = read_phrase(text, of_service=not takes_data)
    if (
        phrase is None
        or _EMPTY.search(phrase.text)
        or coined & set(re.findall(r"[\w-]+", phrase.text.lower()))
    ):
        return None
    return phrase


def _find_coined(tools: Sequence[Tool]) -> frozenset[str]:
    """Last parts of names that the reference doesn't use as words."""
    spread = Counter(
        word
        for tool in tools
        for word in set(re.findall(r"[a-z]+", tool.summary.lower()))
    )
    glossary = load_glossary()
    return frozenset(
        name
        for tool in tools
        if spread[name := tool.name.rsplit(".", 1)[-1].lower()] < _ORDINARY
        and name not in VERBS
        and name not in glossary.terms
        and name not in tool.summary.lower()
    )


_ORDINARY = 3
# Of NumPy's tools 84 in a hundred speak of such, of Polars' 31, of a template engine's 2.
_LEAST_DATA = 0.2
_DATA = re.compile(
    r"\b(?:data|arrays?|array_like|matri(?:x|ces)|data ?frames?|tensors?|axis)\b", re.I
)
_EMPTY = re.compile(
    r"\bsame (?:type|shape)\b|\balias for\b|\bthis (?:function|method|class)\b|\bfollow(?:s|ing)\b"
)
_COMMON = """
    out where dtype casting order subok axis keepdims x a x1 x2 kwargs args copy like
"""
_COMMON_PARAMETERS = frozenset(_COMMON.split())


def _read_choices(tool: Tool, reader: _Reader) -> list[str]:
    """Meanings of parameters that a person might want to choose."""
    choices = []
    for name, schema in tool.parameters.get("properties", {}).items():
        meaning = split_sentences(str(schema.get("description", "")))[:1]
        if name in _COMMON_PARAMETERS or not meaning:
            continue
        phrase = reader(meaning[0])
        if (
            phrase
            and phrase.kind == "thing"
            and 3 <= len(phrase.text.split()) <= 12
            and "input" not in phrase.text
        ):
            choices.append(phrase.text)
    return choices
