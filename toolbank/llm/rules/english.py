"""Reading a reference's sentences: what each says, as a phrase that a request can hold."""

import re
from dataclasses import dataclass
from typing import Literal

from toolbank.llm.rules.lexicon import (
    ADVERBS,
    DETERMINERS,
    FINITE,
    GIVING,
    QUESTION_WORDS,
    VERBS,
)

Kind = Literal["do", "thing", "question"]

_MARKUP = re.compile(r":\w+(?::\w+)?:`~?([^`<]*)(?:<[^`>]*>)?`")
_CODE = re.compile(r"``[^`]*``|`[^`]*`|>>>.*|\$[^$]*\$")
_BRACKETS = re.compile(r"\s*\([^()]*\)|\s*\[[^\[\]]*\]")
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z])")
_UNSAYABLE = re.compile(
    r"[_=<>{}\[\]()`*|\\^/@#$]|\w\.\w|\b[A-Za-z]+\d|\d[A-Za-z]|[a-z][A-Z]|[A-Z]{4}|\.\."
)
_DIMENSIONS = {"1": "one", "2": "two", "3": "three", "n": "many"}
_DIMENSION = re.compile(r"\b([123nN])-?[dD](?:imensional)?\b|\b([123nN])-dimensional\b")
_CAMEL = re.compile(r"\b(?:[A-Z][a-z]+){2,}\b")
_SUBJECT = re.compile(
    r"^(?:this|the|these|such an?) (?:function|method|class|routine|operation|module|object|"
    r"constructor|property|attribute|ufunc|action|call|api)s? (?:also |simply |can be used to |"
    r"is used to |is useful to |will |can |lets you |allows you to |may )?",
    re.I,
)
_CLASS = re.compile(
    r"^(?:an? |the )?(?:\w+ )?(?:convenience |helper |wrapper |utility )?"
    r"(?:class|function|wrapper|helper|method|routine|module|context manager|operation)s? "
    r"(?:to|that|which|for|used to) (?:also |can be used to |be used to )?",
    re.I,
)


@dataclass(frozen=True)
class Phrase:
    """A piece of a request: something to do, a thing wanted, or an embedded question."""

    kind: Kind
    text: str


def split_sentences(text: str) -> list[str]:
    """The prose sentences of a docstring section; code, formulas and tables are left out."""
    sentences = []
    for paragraph in re.split(r"\n\s*\n", text):
        prose = paragraph.strip()
        if not prose or prose.startswith((">>>", "..", "|", "+-", "-", "* ")):
            continue
        sentences += _SENTENCE_END.split(" ".join(prose.split()))
    return sentences


def read_phrase(sentence: str) -> Phrase | None:
    """What a sentence says, or None where it can't be said in a request.

    "Return the sum of ..." is a thing, "Joins two ..." something to do,
    "Test whether ..." a question.
    """
    text = _clean(sentence)
    if text is None:
        return None
    text = _CLASS.sub("", _SUBJECT.sub("", text))
    first, _, rest = text.partition(" ")
    if first.lower() in ADVERBS and rest:
        text = rest
        first, _, rest = text.partition(" ")
    verb = find_verb(first, rest)
    if verb is not None and rest:
        return _from_verb(verb, rest)
    return _from_thing(text)


def find_verb(word: str, rest: str = "the") -> str | None:
    """The base form of a sentence's first word, if that is a verb ("Returns" -> "return")."""
    word = word.lower().rstrip(",")
    if word in VERBS:
        # "Sample points of ..." and "List of ..." are nouns.
        return (
            None if rest.startswith(("of ", "for ", "that ", "which ", "by ")) else word
        )
    for ending, put in (("ies", "y"), ("es", "e"), ("es", ""), ("s", "")):
        stem = word.removesuffix(ending) + put
        if word.endswith(ending) and stem in VERBS:
            return None if rest.startswith(("of ", "for ")) else stem
    return None


def _from_verb(verb: str, rest: str) -> Phrase | None:
    truth = re.match(
        r"(?:a )?(?:true|bool\w*|truth value)\b[^,]*? ?\b(?:if|where|when|for each .*? (?:if|where)|whether)\b "
        r"(.*)",
        rest,
        re.I,
    )
    if truth and verb in GIVING:
        return _question("whether " + truth.group(1))
    tested = re.match(r"(?:for |if |whether |that )(.*)", rest)
    if verb in {"test", "check", "determine"}:
        whether = re.match(r"(?:.*? )?(?:if|whether) (.*)", rest)
        if whether:
            return _question("whether " + whether.group(1))
        if tested and rest.startswith("for "):
            return Phrase("do", "check for " + tested.group(1))
    head = rest.split(" ", 1)[0].lower()
    if head in QUESTION_WORDS:
        return _question(rest)
    if verb in GIVING and not rest.startswith(("out ", "up ", "in ", "to ", "from ")):
        return Phrase("thing", rest)
    return Phrase("do", f"{verb} {rest}")


def _question(text: str) -> Phrase:
    return Phrase("question", text)


def _from_thing(text: str) -> Phrase | None:
    words = text.lower().split()
    if words[0] in QUESTION_WORDS:
        return _question(text)
    if words[0] in {
        "if",
        "see",
        "note",
        "it",
        "this",
        "these",
        "they",
        "when",
        "for",
        "in",
        "by",
        "as",
        "on",
        "however",
        "that",
        "there",
        "default",
        "only",
        "you",
        "we",
        "same",
        "like",
        "alias",
        "equivalent",
        "such",
        "to",
        "with",
        "not",
    }:
        return None
    if FINITE & set(words[: max(6, len(words) // 2)]):
        return None
    if words[0] not in DETERMINERS and len(words) < 2:
        return None
    text = text if words[0] in DETERMINERS else f"the {text}"
    return Phrase("thing", text)


def _clean(sentence: str) -> str | None:
    """The sentence without markup, brackets and full stop; None if code is left in it."""
    text = _MARKUP.sub(r"\1", sentence)
    text = _DIMENSION.sub(_say_dimension, text)
    text = _CODE.sub(_say_code, text)
    text = _CAMEL.sub(_say_camel, text)
    text = _BRACKETS.sub("", text)
    text = re.sub(r"\bi\.e\.|\be\.g\.", "§", text)
    text = re.sub(
        r"[,;:]? *(?:§|such as|for example|see |unless|default).*$",
        "",
        text,
        flags=re.I,
    )
    text = re.sub(r"\s+", " ", text).strip(" .,:;-!")
    if _UNSAYABLE.search(text) or not 2 <= len(text.split()) <= 24:
        return None
    text = re.sub(
        r"\s+(?:of|and|or|in|to|the|a|an|by|for|with|from|is|as|at|on|if|that|where|when)$",
        "",
        text,
    )
    if not text:
        return None
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def _say_code(match: re.Match[str]) -> str:
    word = match.group().strip("`")
    if re.fullmatch(r"[a-z]{4,}", word):
        return word
    return "data" if re.fullmatch(r"[a-z]\w{0,2}", word) else "§"


def _say_camel(match: re.Match[str]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", match.group()).lower()


def _say_dimension(match: re.Match[str]) -> str:
    number = (match.group(1) or match.group(2)).lower()
    return f"{_DIMENSIONS[number]}-dimensional"
