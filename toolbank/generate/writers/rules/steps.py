"""Steps as sentences: a draft says them one by one, a polished request says them in one go."""

from __future__ import annotations

import re
from random import Random

from toolbank.generate.writers.rules.english import Phrase

_FIRST = ("First", "First of all", "To start with", "Step one", "To begin")
_NEXT = ("Then", "Next", "After that", "Afterwards", "In the next step")
_LAST = ("Finally", "Last of all", "At the end", "To finish", "As the last step")
_ONLY = ("Just this", "Only this", "This alone")
_OPENER = re.compile(
    "(?:"
    + "|".join(
        re.escape(o)
        for o in sorted(_FIRST + _NEXT + _LAST + _ONLY, key=len, reverse=True)
    )
    + "), "
)
_THING_VERBS = (
    "find",
    "work out",
    "give me",
    "show me",
    "get me",
    "get",
    "produce",
    "come up with",
)
_QUESTION_VERBS = ("tell me", "find out", "work out")


def say_step(phrase: Phrase, random: Random) -> str:
    """A phrase as something to be done: "work out the total", "check whether ..."."""
    if phrase.kind == "do":
        return phrase.text
    if phrase.kind == "thing":
        return f"{random.choice(_THING_VERBS)} {phrase.text}"
    if phrase.text.startswith("whether"):
        return f"{random.choice(('check', 'tell me', 'find out'))} {phrase.text}"
    return f"{random.choice(_QUESTION_VERBS)} {phrase.text}"


def write_draft(opening: str, steps: list[str], random: Random) -> str:
    """The steps one after the other, a sentence each."""
    sentences = [opening] if opening else []
    for place, step in enumerate(steps):
        openers = _openers(place, len(steps))
        sentences.append(f"{random.choice(openers)}, {step}.")
    return " ".join(sentences)


def _openers(place: int, steps: int) -> tuple[str, ...]:
    if steps == 1:
        return _ONLY
    if place == 0:
        return _FIRST
    return _LAST if place == steps - 1 else _NEXT


def split_draft(draft: str) -> tuple[str, list[str]]:
    """The opening and the steps of a draft of `write_draft`."""
    parts = _OPENER.split(draft)
    return parts[0].strip(), [part.strip().rstrip(".") for part in parts[1:]]


def merge_steps(draft: str, random: Random) -> str:
    """The draft as one fluent request."""
    opening, steps = split_draft(draft)
    if not steps:
        return draft
    return random.choices(
        (_ask, _wish, _command, _question_first, _purpose), (3, 3, 4, 2, 2)
    )[0](opening, steps, random)


def _ask(opening: str, steps: list[str], random: Random) -> str:
    lead = random.choice(
        (
            "Can you",
            "Could you",
            "Could you please",
            "Would you",
            "Is there a way to",
        )
    )
    steps = [_impersonal(step) for step in steps] if lead.startswith("Is") else steps
    return _with(opening, f"{lead} {_join(steps, random)}?")


def _wish(opening: str, steps: list[str], random: Random) -> str:
    lead = random.choice(
        (
            "I'd like to",
            "I want to",
            "I need to",
            "I have to",
            "How do I",
            "What's the best way to",
            "Help me to",
        )
    )
    body = _join([_impersonal(step) for step in steps], random)
    end = "?" if lead.startswith(("How", "What")) else "."
    return _with(opening, f"{lead} {body}{end}")


def _command(opening: str, steps: list[str], random: Random) -> str:
    body = _join(steps, random)
    end = random.choice((".", ".", ", please.", "."))
    return _with(opening, body[0].upper() + body[1:] + end)


def _question_first(opening: str, steps: list[str], random: Random) -> str:
    body = _join(steps, random)
    return f"{body[0].upper()}{body[1:]}. {opening}".strip()


def _purpose(opening: str, steps: list[str], random: Random) -> str:
    first, *others = steps
    lead = random.choice(
        ("I'm trying to", "My plan is to", "What I'm after is to", "My job today is to")
    )
    if not others:
        return _with(opening, f"{lead} {_impersonal(first)}.")
    body = _join([_impersonal(step) for step in others], random)
    link = random.choice(
        ("and then to", "and after that to", "so that I can", "and from there to")
    )
    return _with(opening, f"{lead} {_impersonal(first)} {link} {body}.")


def _with(opening: str, body: str) -> str:
    return f"{opening} {body}".strip()


def _impersonal(step: str) -> str:
    for spoken, plain in (
        ("tell me ", "know "),
        ("give me ", "have "),
        ("show me ", "see "),
        ("get me ", "get "),
    ):
        if step.startswith(spoken):
            return plain + step.removeprefix(spoken)
    return step


def _join(steps: list[str], random: Random) -> str:
    if len(steps) == 1:
        return steps[0]
    last = random.choice((" and ", ", then ", " and then ", ", and also ", " and "))
    return ", ".join(steps[:-1]) + last + steps[-1]
