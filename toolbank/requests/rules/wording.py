"""Turn what the reference says about a tool into phrases that a request can use."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from toolbank.bank.records import Tool
from toolbank.requests.rules.english import (
    DETERMINERS,
    FINITE,
    PREPOSITIONS,
    VERBS,
    GlossaryEntry,
    Phrase,
    load_glossary,
    read_phrase,
    split_sentences,
    weigh_terms,
)
from toolbank.requests.write.affinity import find_name, index_names, split_name

_DETERMINER = (
    r"(?:the|an?|each|all|any|some|given|provided|specified|passed|input|two|one|more|or|several|of|in|"
    r"original|single|same|new|another|other|every|multiple|whole|\w+-dimensional|numeric|flattened|array-like)"
)
_HEAD = r"(?:array-like|arrays?|ndarrays?|tensors?|series|data frames?)"
_VAGUE = r"(?:elements?|values?|data|entries|objects?|sequences?|lists?|inputs?|operands?|arguments?|index(?:es)?)"
_MORE = rf"(?:(?: of|,| or| and|/) ?(?:(?:an?|the|each|all|input|given|first|other) )*(?:{_HEAD}|{_VAGUE}))*"
_DATA_WORDS = re.compile(
    rf"\b(?:(?:(?!of|in|or)(?:{_DETERMINER}) (?:{_DETERMINER} )*)?{_HEAD}(?: {_VAGUE})?"
    rf"|(?!of|in|or){_DETERMINER} (?:{_DETERMINER} )*{_VAGUE}){_MORE}\b",
    re.I,
)
_AXIS = re.compile(
    r",? ?\b(?:along|over|for|across|on|about|around|to) (?:the |an? |any |all |each )?"
    r"(?:(?:given|specified|particular|requested|last|single|desired|selected|chosen|number of) )*"
    r"(?:axis|axes|dimensions?)(?: or axes)?(?: of the \w+)?\b",
    re.I,
)
_AXIS_AT_END = re.compile(rf"(?:{_AXIS.pattern})$", re.I)
_BEFORE_THE = (
    PREPOSITIONS
    | FINITE
    | VERBS
    | {"whether", "that", "which", "each", "all", "both", "only", "its"}
)
_AFTER_NOUN = frozenset(
    ["of", "for", "in", "with", "over", "between", "from", "to", "that", "along"]
)
_ELEMENTWISE = re.compile(r",? ?\b(?:element-?wise|elementwise)\b", re.I)
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w))")


def say_plainly(phrase: Phrase, things: str, rng: Random) -> Phrase:
    """The phrase with the person's things in place of arrays, and plain words for terms."""
    text, is_do = phrase.text, phrase.kind == "do"
    text = _AXIS_AT_END.sub(
        lambda _: rng.choice(("", "", "", " row by row", " for each column")), text
    )
    text = _ELEMENTWISE.sub("", _AXIS.sub("", text))
    text = _explain(text, things, is_do, rng)

    def name_data(match: re.Match[str]) -> str:
        before = text[: match.start()].split()
        if (
            before
            and not (len(before) == 1 and is_do)
            and before[-1] not in _BEFORE_THE
        ):
            return things
        return f"the {things}"

    text = _DATA_WORDS.sub(name_data, text)
    text = re.sub(rf"\b({re.escape(things)}) (is|has|was)\b", _agree, text)
    return Phrase(phrase.kind, _tidy(text))


def _agree(match: re.Match[str]) -> str:
    return f"{match.group(1)} {({'is': 'are', 'has': 'have', 'was': 'were'})[match.group(2)]}"


def fill(ask: str, things: str, rng: Random) -> str:
    """A glossary's ask about the person's things."""
    return ask.replace(
        "{x}",
        rng.choice((f"the {things}", f"my {things}", f"the {things}", f"our {things}")),
    )


def _explain(text: str, things: str, is_do: bool, rng: Random) -> str:
    glossary = load_glossary()
    pieces: list[str] = []
    end = 0
    left = 2
    for entry, start, stop in glossary.find(text):
        words = glossary.entries[entry].words
        term = text[start:stop].lower()
        if not words or not left or term in things or rng.random() < 0.4:
            continue
        if not _fits(
            glossary.entries[entry], text[:start].split(), text[stop:].split(), is_do
        ):
            continue
        word = rng.choice(
            [w for w in words if w.split()[-1] not in PREPOSITIONS] or [term]
        )
        if term not in glossary.terms:
            if " " in word or word.endswith("s"):
                continue
            word += "s"
        pieces += [text[end:start], word]
        end = stop
        left -= 1
    return "".join(pieces) + text[end:]


def _fits(
    entry: GlossaryEntry, before: list[str], after: list[str], is_do: bool
) -> bool:
    """Whether an entry's words can stand between others: as the verb, or as a whole noun."""
    if is_do and not before:
        return entry.is_verb and bool(after) and after[0] in DETERMINERS
    if entry.is_verb or not before:
        return False
    stands_first = before[-1].lower() in DETERMINERS | PREPOSITIONS
    return stands_first and (not after or after[0].lower() in _AFTER_NOUN)


def _tidy(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,.;:-")
    text = re.sub(r"\b(the|a|an) (?:the|an?|them)\b", r"\1", text, flags=re.I)
    text = re.sub(r"\b(\w+) \1\b", r"\1", text)
    return _ARTICLE.sub(_choose_article, text)


def _choose_article(match: re.Match[str]) -> str:
    return match.group(1) + ("n " if match.group(2).lower() in "aeiou" else " ")


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
