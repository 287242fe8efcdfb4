"""Read the writer's replies, and check drafts and texts of a bank."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import Bank
from toolbank.config.assets import shipped
from toolbank.llm.chat import Rejection, find_answer
from toolbank.requests.write.language import (
    ENGLISH,
    LANGUAGES,
    count_words,
    find_other_language,
    keep_latin,
)
from toolbank.requests.write.near_duplicates import ALIKE, word_grams
from toolbank.system.text import find_control_character, replace_surrogates

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

    from toolbank.bank.records import Tool
    from toolbank.requests.write.config import GenerateConfig


_WORD = re.compile(r"\w+")
_INNER_DOT = re.compile(r"\.\w")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.\w+)+")
_CALL = re.compile(r"\b([^\W\d]\w*)\(\)")
_ENGLISH_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_CAMEL_CASE = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]")

# Marks of chat templates, and the names of speakers.
_CHAT_MARK = re.compile(
    r"<\|[^|<>]{1,40}\|>|\[/?INST\]|</?s>|<(?:start|end)_of_turn>|<</?SYS>>|</?think(?:ing)?>"
    r"|^\s*(?:assistant|system|user)\s*:",
    re.IGNORECASE,
)
_ASSISTANT = re.compile(
    r"(?:sure|certainly|of course|absolutely)\b ?[,!.:;-]"
    r"|(?:here(?:'s| is| are)|below (?:is|are)) (?:the|an?|your|some|my|\d+)\b[^.?!:]{0,60}\b"
    r"(?:request|query|queries|draft|polished|rewritten|revised|version)s?\b"
    r"|(?:i can|i could|i'd be happy to|i would be happy to|i am happy to) (?:help|assist)(?: you| with|[,!.])"
    r"|(?:as an ai|i am an ai|i'm an ai)\b"
    r"|i(?:'m| am) sorry,? but i (?:can(?:no|')t|am unable)",
    re.IGNORECASE,
)
_LATIN_SHARE = 0.8
_ENGLISH_SHARE = 0.05
_FEWEST_WORDS_TO_TELL = 10
# Function words of English, without those that are also common in neighbouring languages ("a",
# "in", "me", "so", "was", "will").
_ENGLISH_TEXT = """
    the of to and for with from my our their its his are were be been we they you your it this
    that these those which what how who when where if then than each every any both only by at
    into out onto but not can could should would need want have has had get give show find make
    tell keep there them one two three first last before after up just please it's that's i'm
    i'd i've is whose
"""
_ENGLISH = frozenset(_ENGLISH_TEXT.split())


class TextChecker:
    """Check any text that is written for a bank.

    A text is rejected as `identifier` if it has

    - a dotted name, or part of one ("numpy.linalg.norm", "linalg.norm", "np.norm");
    - a last part of a name that is no plain word: with an underscore, a digit or CamelCase
      ("nan_to_num", "log2", "DataFrame");
    - a plain last part written as a call ("mean()").

    Aliases count as names. A plain last part used as a word ("mean") is allowed: see `leak_words`.

    What a model writes to its reader is rejected as `chat-template` (marks such as "<|im_end|>") or
    `assistant-phrase` ("Sure, here is the request"), and a text that repeats one of the prompt's
    `examples` as `copies-example`. A text in another language is `not-english`, or `language` in a
    bank of another one.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        examples: Iterable[str] = (),
        language: str = ENGLISH,
    ) -> None:
        self._language = language
        self._examples = {text: word_grams(text) for text in examples}
        names = {name for tool in tools for name in (tool.name, *tool.aliases)}
        self._last_parts = {_last_part(name) for name in names}
        self._dotted = {
            suffix.lower()
            for name in names
            for suffix in _suffixes(name)
            if "." in suffix
        }
        self._identifiers = {word for word in self._last_parts if _is_identifier(word)}
        self._identifiers |= {word.lower() for word in self._identifiers if "_" in word}

    def check(self, text: str, min_words: int, max_words: int) -> Rejection | None:
        """Return why a text is rejected: characters, length, language or identifiers; or None."""
        if rejection := check_characters(text):
            return rejection
        words = count_words(text, self._language)
        if words < min_words:
            return Rejection("too-short", f"{words} words, at least {min_words}")
        if words > max_words:
            return Rejection("too-long", f"{words} words, at most {max_words}")
        if rejection := self._check_language(text):
            return rejection
        if identifier := self.find_identifier(keep_latin(text, self._language)):
            return Rejection("identifier", identifier)
        if mark := _CHAT_MARK.search(text):
            return Rejection("chat-template", mark[0].strip())
        if phrase := _ASSISTANT.match(text):
            return Rejection("assistant-phrase", phrase[0])
        example = self._find_example(text)
        return Rejection("copies-example", example) if example else None

    def _check_language(self, text: str) -> Rejection | None:
        if self._language == ENGLISH:
            return None if is_english(text) else Rejection("not-english")
        if other := find_other_language(text, self._language):
            wanted = LANGUAGES[self._language]
            said = f"more like {LANGUAGES[other]} than {wanted}"
            return Rejection("language", said)
        return None

    def _find_example(self, text: str) -> str | None:
        """Find the example that a text nearly repeats."""
        grams = word_grams(text) if self._examples else set()
        for example, other in self._examples.items():
            if len(grams & other) >= ALIKE * len(grams | other):
                return example
        return None

    def find_identifier(self, text: str) -> str | None:
        """Find the first identifier of the bank in a text, or None."""
        words = _WORD.findall(text)
        if "_" in text or not self._identifiers.isdisjoint(words):
            for word in words:
                if word in self._identifiers or (
                    "_" in word and word.lower() in self._identifiers
                ):
                    return str(word)
        if _INNER_DOT.search(text):
            for dotted in _DOTTED.findall(text):
                if self._is_dotted_name(dotted):
                    return str(dotted)
        for word in _CALL.findall(text):
            if word in self._last_parts:
                return f"{word}()"
        return None

    def leak_words(self, text: str, tools: Iterable[Tool]) -> tuple[str, ...]:
        """List the plain last parts of these tools' names and aliases that are words of a text."""
        words = {word.lower() for word in _WORD.findall(text)}
        parts = (
            _last_part(name).lower()
            for tool in tools
            for name in (tool.name, *tool.aliases)
        )
        return tuple(dict.fromkeys(part for part in parts if part in words))

    def _is_dotted_name(self, dotted: str) -> bool:
        if any(suffix.lower() in self._dotted for suffix in _suffixes(dotted)):
            return True
        last = _last_part(dotted)
        # "np.sum" is code; "e.g" and "db.x" are not.
        return len(last) > 2 and last in self._last_parts


def is_english(text: str) -> bool:
    """Return whether a text looks like English: Latin letters, and English function words.

    The check is lenient, so it loses no English request. It misses single foreign words, English
    mixed with another language, and some neighbouring languages (Dutch). A text of fewer than 10
    words is judged by its letters alone.
    """
    if not _is_latin(text):
        return False
    words = _ENGLISH_WORD.findall(text.lower().replace("\u2019", "'"))
    small = sum(word in _ENGLISH for word in words)
    return len(words) < _FEWEST_WORDS_TO_TELL or small >= _ENGLISH_SHARE * len(words)


def check_characters(text: str) -> Rejection | None:
    """Reject a text with characters that control a terminal, change direction or can't be encoded.

    The text is not repaired, since its other characters may make no sense without these.
    """
    sign = find_control_character(text)
    return Rejection("control-sign", sign) if sign else None


def _is_latin(text: str) -> bool:
    """Whether a text has letters, most of them Latin."""
    if text.isascii():
        return any(map(str.isalpha, text))
    letters = [character for character in text if character.isalpha()]
    latin = sum(
        character.isascii() or unicodedata.name(character, "").startswith("LATIN")
        for character in letters
    )
    return bool(letters) and latin >= _LATIN_SHARE * len(letters)


def _suffixes(dotted: str) -> list[str]:
    parts = dotted.split(".")
    return [".".join(parts[start:]) for start in range(len(parts))]


def _last_part(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _is_identifier(word: str) -> bool:
    return (
        "_" in word
        or any(character.isdigit() for character in word)
        or bool(_CAMEL_CASE.search(word))
    )


# Replies are checked by the bundled schemas. A user's own schemas are only sent.
_FOLDER = shipped("prompts") / "schemas"
DRAFT_SCHEMA: dict[str, Any] = json.loads((_FOLDER / "write.json").read_bytes())
POLISHED_SCHEMA: dict[str, Any] = json.loads((_FOLDER / "polish.json").read_bytes())
_SCHEMAS = {"draft": DRAFT_SCHEMA, "polished": POLISHED_SCHEMA}


@dataclass(frozen=True)
class Draft:
    """A writer's answer. If `declined`, `reason` says why and the rest is empty."""

    draft: str
    tools: tuple[str, ...]
    explanation: str
    declined: bool = False
    reason: str = ""


def read_draft(text: str) -> Draft | Rejection:
    """Read a writer's reply.

    Rejected as `not-json`, `several-objects`, `repeated-key`, `wrong-schema`, `empty-draft` or
    `reply-too-long`. No reply raises an error.
    """
    found = find_answer(text, DRAFT_SCHEMA["properties"])
    if isinstance(found, Rejection):
        return found
    answer = {"declined": False, "reason": "", **found}
    if answer["declined"] is True:
        answer = {"tools": [], "explanation": "", "draft": "", **answer}
    if problem := _find_problem(answer, "draft"):
        return problem
    if answer["declined"]:
        return Draft("", (), "", declined=True, reason=_tidy(answer["reason"]))
    draft = _one_line(answer["draft"])
    if not draft:
        return Rejection("empty-draft")
    tools = tuple(_tidy(tool) for tool in answer["tools"])
    return Draft(draft, tools, _one_line(answer["explanation"]))


def read_polished(text: str, draft: str) -> str | Rejection:
    """Read the query of a polish reply, or return `draft` if the reply calls it good already.

    Rejected as `not-json`, `several-objects`, `repeated-key`, `wrong-schema`, `empty-query` or
    `reply-too-long`. No reply raises an error.
    """
    found = find_answer(text, POLISHED_SCHEMA["properties"])
    if isinstance(found, Rejection):
        return found
    answer = {"already_good": False, "reason": "", **found}
    if answer["already_good"] is True:
        answer["query"] = draft
    if problem := _find_problem(answer, "polished"):
        return problem
    return _one_line(answer["query"]) or Rejection("empty-query")


@cache
def _validator(kind: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    # Models add keys of their own, such as "thoughts".
    return Draft202012Validator({**_SCHEMAS[kind], "additionalProperties": True})


def _find_problem(answer: dict[str, Any], kind: str) -> Rejection | None:
    error = next(_validator(kind).iter_errors(answer), None)
    if error is None:
        return None
    where = "".join(f"[{part!r}]" for part in error.path)
    return Rejection("wrong-schema", f"{where} {error.message}"[:200].strip())


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _tidy(text: str) -> str:
    """One line of text without surrogates."""
    return _one_line(replace_surrogates(text))


class Checker:
    """Check the drafts and queries of a bank; `texts` checks a text alone."""

    def __init__(
        self,
        tools: Sequence[Tool],
        config: GenerateConfig,
        examples: Iterable[str] = (),
    ) -> None:
        self.texts = TextChecker(tools, examples, config.language)
        self._tools = tools
        self._index = Bank(tuple(tools)).index
        self._config = config

    def check_draft(
        self, draft: Draft, offered: Sequence[Tool], at_most: int
    ) -> tuple[Tool, ...] | Rejection:
        """Return the tools of a draft in call order, or why the draft is rejected.

        A tool may be named by an alias.
        """
        tools: list[Tool] = []
        allowed = {tool.name for tool in offered}
        for name in draft.tools:
            tool = self._tools[self._index[name]] if name in self._index else None
            if tool is None or tool.name not in allowed:
                return Rejection("tool-not-offered", name[:100])
            tools.append(tool)
        names = [tool.name for tool in tools]
        if len(set(names)) < len(names):
            twice = [name for name, n in Counter(names).items() if n > 1]
            return Rejection("repeated-tool", ", ".join(twice))
        if self._config.tools_per_query and len(tools) != at_most:
            said = f"{len(tools)}, asked for {at_most}"
            return Rejection("other-number-of-tools", said)
        if len(tools) < self._config.fewest_tools:
            said = f"{len(tools)}, at least {self._config.fewest_tools}"
            return Rejection("too-few-tools", said)
        if len(tools) > at_most:
            return Rejection("too-many-tools", f"{len(tools)}, at most {at_most}")
        return (
            self.check_text(draft.draft)
            or check_characters(draft.explanation)
            or tuple(tools)
        )

    def check_text(self, text: str) -> Rejection | None:
        """Return why a draft or a query is rejected, or None."""
        return self.texts.check(text, self._config.min_words, self._config.max_words)
