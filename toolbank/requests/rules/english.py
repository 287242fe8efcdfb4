"""Read a reference's sentences, with a lexicon and a glossary of plain words."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Literal


def _read_lists() -> dict[str, str]:
    """The text of each list by its [name], without comments."""
    lists: dict[str, str] = {}
    name = ""
    text = files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif not line.startswith("#"):
            lists[name] = f"{lists.get(name, '')} {line}"
    return lists


_LISTS = _read_lists()


def list_phrases(name: str) -> tuple[str, ...]:
    """List the phrases under a [name] of the lexicon."""
    return tuple(phrase.strip() for phrase in _LISTS[name].split(";"))


VERBS = frozenset(_LISTS["verbs"].split())
SPOKEN_VERBS = VERBS.union(_LISTS["spoken verbs"].split())
GIVING = frozenset(_LISTS["giving"].split())
MAKING = frozenset(_LISTS["making"].split())
SERVICE_VERBS = frozenset(_LISTS["service verbs"].split())
ADVERBS = frozenset(_LISTS["adverbs"].split())
QUESTION_WORDS = frozenset(_LISTS["question words"].split())
FINITE = frozenset(_LISTS["finite"].split())
DETERMINERS = frozenset(_LISTS["determiners"].split())
PREPOSITIONS = frozenset(_LISTS["prepositions"].split())
NO_BEGINNING = (PREPOSITIONS | FINITE).union(_LISTS["no beginning"].split())

THINGS = list_phrases("things")
PLACES = list_phrases("places")


Kind = Literal["do", "thing", "question", "fact"]

_MARKUP = re.compile(r":\w+(?::\w+)?:`~?([^`<]*)(?:<[^`>]*>)?`")
_CODE = re.compile(r"``[^`]*``|`[^`]*`|>>>.*|\$[^$]*\$")
_BRACKETS = re.compile(r"\s*\([^()]*\)|\s*\[[^\[\]]*\]")
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+(?=[A-Z])")
_UNSAYABLE = re.compile(
    r"[_=<>{}\[\]()`*|\\^/@#$+~\"]|\w\.\w|\b[A-Za-z]+\d|\d[A-Za-z]|[a-z][A-Z]|[A-Z]{4}|\.\.|\b[B-HJ-Z]\b|(?:^|\s)[.']\w"
)
_DIMENSIONS = {"1": "one", "2": "two", "3": "three", "n": "many"}
_DIMENSION = re.compile(r"\b([123nN])-?[dD](?:imensional)?\b|\b([123nN])-dimensional\b")
_CAMEL = re.compile(r"\b(?:[A-Z][a-z]+){2,}\b")
_LISTED = re.compile(
    r"\b(?:an? |the )?(?:array|list|sequence|tuple|collection|series|number|set)s? of (?=(?:\w+ )?(?!this)[a-z-]{3,}s\b)"
)
_CUT = re.compile(
    r"[,;:]? *(?:§|\b(?:such as|for example|see|unless|default|if not|false otherwise|"
    r"otherwise|similar to|like the)\b).*$",
    re.I,
)
_LOOSE_END = re.compile(
    r"(?:[,;]| (?:of|and|or|in|to|the|a|an|by|for|with|from|is|as|at|on|if|that|where|which|when|"
    r"used|i\.e|than|are|given|with respect))+$"
)
_SUBJECT = re.compile(
    r"^(?:this|the|these|such an?|it) (?:\w+ )?(?:function|method|class|routine|operation|module|object|"
    r"constructor|property|attribute|ufunc|action|call|api)s? (?:also |simply |can be used to |"
    r"is used to |is used for |is useful to |is useful for |will |can |lets you |allows you to |may )?",
    re.I,
)
_CLASS = re.compile(
    r"^(?:an? |the )?(?:\w+ )?(?:convenience |helper |wrapper |utility )?"
    r"(?:class|functions?|wrapper|helper|method|routine|module|context manager|operation|instance)s? "
    r"(?:to|that|which|for|used to) (?:also |can be used to |be used to )?",
    re.I,
)
_FOR_DOING = re.compile(rf"{_CLASS.pattern}(?<=for )\w+ing\b", re.I)
_USEFUL = re.compile(
    r"^(?:this|it|these) (?:is|are|can be) (?:also |especially |particularly |often )?"
    r"(?:useful|helpful|handy|intended|suitable|used) (?:to|for) ",
    re.I,
)
_TRUTH = re.compile(
    r"(?:an? )?(?:array of |boolean |bool )*(?:true|bool\w*|truth value)\b[^,]*? ?"
    r"\b(?:if|where|when|whether)\b (.*)",
    re.I,
)


@dataclass(frozen=True)
class Phrase:
    """A piece of a request: something to do, a thing wanted, an embedded question, a fact."""

    kind: Kind
    text: str


def split_sentences(text: str) -> list[str]:
    """The prose sentences of a docstring section; code, formulas and tables are left out."""
    sentences = []
    for paragraph in re.split(r"\n\s*\n", text):
        prose = paragraph.strip()
        if prose and not prose.startswith((">>>", "..", "|", "+-", "-", "* ")):
            sentences += _SENTENCE_END.split(" ".join(prose.split()))
    return sentences


def read_phrase(sentence: str, *, of_service: bool = False) -> Phrase | None:
    """What a sentence says, or None where it can't be said in a request.

    "Return the sum of ..." is a thing, "Joins two ..." something to do, "Test whether ..." a
    question, and "Days are numbered from ..." a fact. Of an operation of a service, "Create an event" is something to do.
    """
    text = _clean(sentence)
    if text is None:
        return None
    use = _USEFUL.match(text) or _FOR_DOING.match(text)
    for beginning in (_USEFUL, _SUBJECT, _CLASS):
        text = beginning.sub("", text)
    first, _, rest = text.partition(" ")
    if first.lower() in ADVERBS and rest:
        first, _, rest = rest.partition(" ")
    verb = find_gerund(first) if use else find_verb(first, rest)
    if of_service and verb is None:
        plain = first.lower()
        verb = next(
            (v for v in (plain, plain.removesuffix("s")) if v in SERVICE_VERBS), None
        )
    if verb is not None and rest:
        if of_service and verb in MAKING:
            return Phrase("do", f"{verb} {rest}")
        phrase = _from_verb(verb, rest)
        if phrase is None and of_service and verb in GIVING:
            # "Find restaurants near a place."
            return Phrase("do", f"{verb} {rest}")
        return phrase
    return _from_thing(f"{first} {rest}".strip())


def find_verb(word: str, rest: str = "the") -> str | None:
    """The base form of a sentence's first word, if that is a verb ("Returns" -> "return")."""
    word = word.lower().rstrip(",")
    if rest.startswith(("of ", "that ", "by ")):
        return None
    if word in VERBS:
        return word
    return _strip_ending(word, (("ies", "y"), ("es", "e"), ("es", ""), ("s", "")))


def read_ask(text: str) -> Phrase:
    """The kind of what a person asks, by its first words."""
    first, second = text.split()[:2]
    if first in QUESTION_WORDS or (first in PREPOSITIONS and second in QUESTION_WORDS):
        return Phrase("question", text)
    return Phrase("do" if first in SPOKEN_VERBS else "thing", text)


def find_gerund(word: str) -> str | None:
    """The base form of a verb in -ing ("verifying" -> "verify"), or of a base form itself."""
    word = word.lower()
    return word if word in VERBS else _strip_ending(word, (("ing", ""), ("ing", "e")))


def _strip_ending(word: str, endings: tuple[tuple[str, str], ...]) -> str | None:
    for ending, put in endings:
        stem = word.removesuffix(ending) + put
        if word.endswith(ending) and stem in VERBS:
            return stem
    return None


def _from_verb(verb: str, rest: str) -> Phrase | None:
    truth = _TRUTH.match(rest)
    if truth and verb in GIVING:
        return Phrase("question", "whether " + truth.group(1))
    if verb in {"test", "check", "determine"}:
        whether = re.match(r"(?:.*? )?(?:if|whether) (.*)", rest)
        if whether:
            return Phrase("question", "whether " + whether.group(1))
        rest = re.sub(r"^(?:element-wise )?for ", "for ", rest)
        if rest.startswith("for "):
            return Phrase("do", "check " + rest)
    head = rest.split(" ", 1)[0].lower()
    if head in QUESTION_WORDS:
        return Phrase("question", rest)
    if verb in GIVING and head not in PREPOSITIONS | {"out", "up", "to"}:
        return _from_thing(rest)
    if FINITE & set(rest.lower().split()[:3]):
        return None
    return Phrase("do", f"{verb} {rest}")


def _from_thing(text: str) -> Phrase | None:
    words = text.lower().split()
    if words[0] in QUESTION_WORDS - {"how", "when", "where", "why"}:
        return Phrase("question", text)
    if words[0] == "true" and len(words) > 3 and words[1] in {"if", "where", "when"}:
        return Phrase("question", "whether " + text.split(" ", 2)[2])
    if words[0] in NO_BEGINNING or len(words) < 2:
        return None
    main = re.split(r" (?:that|which|where|whose|as if|how|what|when) ", text.lower())[
        0
    ]
    if FINITE & set(main.split()):
        return Phrase("fact", text) if len(words) >= 6 else None
    if words[0] in DETERMINERS:
        return Phrase("thing", text)
    if words[0].endswith(("ing", "ed")) or (
        words[0].endswith("s")
        and not words[0].endswith("ss")
        and words[1] not in PREPOSITIONS | {"that", "which"}
    ):
        return None
    return Phrase("thing", f"the {text}")


def _clean(sentence: str) -> str | None:
    """The sentence without markup, brackets and full stop; None if code is left in it."""
    text = _MARKUP.sub(r"\1", sentence)
    text = _DIMENSION.sub(_say_dimension, text)
    text = _CODE.sub(_say_code, text)
    text = re.sub(
        r"\bNaNs?\b|\bN/?A\b|\b[Nn]ot a [Nn]umbers?\b", "missing values", text
    )
    text = _CAMEL.sub(_say_camel, text)
    text = re.sub(r"\bdtype", "data type", text)
    text = _LISTED.sub("", text)
    text = re.sub(r"\b(\w{3,})/(\w{3,})\b", r"\1 or \2", text)
    text = re.sub(r"\bTrue\b", "true", text)
    text = _BRACKETS.sub("", text)
    text = re.sub(r"\bi\.e\.|\be\.g\.|\bvs\.", "§", text)
    text = _CUT.sub("", text) if not text.lower().startswith("see") else ""
    text = _LOOSE_END.sub("", re.sub(r"\s+", " ", text).strip(" .,:;-!\"'"))
    if not text or _UNSAYABLE.search(text) or not 2 <= len(text.split()) <= 24:
        return None
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def _say_code(match: re.Match[str]) -> str:
    word = match.group().strip("`")
    if re.fullmatch(r"[a-z]{4,}", word):
        return word
    return "the input" if re.fullmatch(r"[a-z]\w{0,2}", word) else "§"


def _say_camel(match: re.Match[str]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", match.group()).lower()


def _say_dimension(match: re.Match[str]) -> str:
    number = (match.group(1) or match.group(2)).lower()
    return f"{_DIMENSIONS[number]}-dimensional"


@dataclass(frozen=True)
class GlossaryEntry:
    """A term's plain words, what people ask who need it, and data that they ask it of."""

    words: tuple[str, ...]
    asks: tuple[str, ...]
    settings: tuple[str, ...]

    @property
    def is_verb(self) -> bool:
        """Whether the plain words are things to do."""
        return all(word.split()[0] in VERBS for word in self.words)


@dataclass(frozen=True)
class Glossary:
    """Entries, the terms that lead to them, and a pattern that finds the terms in a text."""

    entries: tuple[GlossaryEntry, ...]
    terms: dict[str, int]
    pattern: re.Pattern[str]

    def find(self, text: str) -> list[tuple[int, int, int]]:
        """The terms in a text, longest first at each place: (entry, start, end)."""
        return [
            (self.entry_of(match.group()), match.start(), match.end())
            for match in self.pattern.finditer(text)
        ]

    def entry_of(self, term: str) -> int:
        """The entry of a term as found, which may be its plural."""
        term = term.lower()
        return self.terms[term] if term in self.terms else self.terms[term[:-1]]


@cache
def load_glossary() -> Glossary:
    """Read the glossary that comes with the package."""
    text = files(__package__).joinpath("glossary.txt").read_text(encoding="utf-8")
    entries: list[GlossaryEntry] = []
    terms: dict[str, int] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith(("#", "[")):
            continue
        head, _, body = line.partition(":")
        for term in head.split("/"):
            terms.setdefault(term.strip().lower(), len(entries))
        fields = [_split_glossary(field) for field in body.split("|")]
        words, asks, settings = (*fields, (), ())[:3]
        entries.append(GlossaryEntry(words, asks, settings))
    # By first letters, of which one at most fits a place: a tenth of the time of one long list.
    choices = groupby(
        sorted(terms, key=lambda term: (term[0], -len(term), term)),
        key=lambda term: term[0],
    )
    pattern = "|".join(
        f"{re.escape(first)}(?:{'|'.join(map(_with_plural, group))})"
        for first, group in choices
    )
    return Glossary(
        tuple(entries), terms, re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.I)
    )


def weigh_terms(texts: dict[str, float], glossary: Glossary) -> dict[int, float]:
    """How much each entry matters to texts of given weights; an early term matters more."""
    weights: defaultdict[int, float] = defaultdict(float)
    for text, weight in texts.items():
        for place, (entry, _, _) in enumerate(glossary.find(text)):
            weights[entry] = max(weights[entry], weight / (1 + 0.15 * place))
    return dict(weights)


def _with_plural(term: str) -> str:
    """The pattern of a term after its first letter."""
    return re.escape(term[1:]) + ("" if term.endswith("s") else "s?")


def _split_glossary(field: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in field.split(";") if part.strip())
