"""An attempt for people: its prompts, its replies, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolbank.llm.chat import ChatRequest
from toolbank.llm.journal import Entry, Failure


def format_attempt(
    name: str,
    entries: Iterable[Entry],
    failures: Iterable[Failure],
    ending: Iterable[str],
) -> str:
    """All of an attempt, such as "attempt 3": its exchanges, failed tries before each, its ending."""
    parts = [_title(name)]
    tries = list(failures)
    for entry in entries:
        parts += _format_exchange(entry, [one for one in tries if one.key == entry.key])
        tries = [one for one in tries if one.key != entry.key]
    parts += map(_format_try, tries)
    parts += [f">>> {line}" for line in ending]
    return "\n".join(parts)


def format_prompt(name: str, request: ChatRequest, ending: str) -> str:
    """What is asked first in an attempt, where there is no reply."""
    messages = [
        _format_message(request.step, message.role, message.content)
        for message in request.messages
    ]
    return "\n".join([_title(name), *messages, f">>> {ending}"])


def format_ending(outcome: str, reason: str, detail: str) -> str:
    """Such as "rejected: too-long (212 words, at most 150)"."""
    particulars = f" ({detail})" if detail else ""
    return f"{outcome}: {reason or 'nothing belongs together'}{particulars}"


def _title(name: str) -> str:
    return f"{'=' * 30} {name} {'=' * 30}"


def _format_message(step: str, role: str, content: str) -> str:
    return f"--- {step}: {role}\n{content.strip()}\n"


def _format_exchange(entry: Entry, failures: Iterable[Failure]) -> Iterator[str]:
    for message in entry.messages:
        yield _format_message(entry.step, message["role"], message["content"])
    yield from map(_format_try, failures)
    reply = entry.reply
    finish = "" if reply.finish == "stop" else f" ({reply.finish})"
    yield f"--- {entry.step}: reply of {reply.model}{finish}\n{reply.text.strip()}\n"


def _format_try(failure: Failure) -> str:
    given_up = "; the call was given up" if failure.final else ""
    return f"--- {failure.step}: a try failed, {failure.reason}{given_up}\n{failure.message}\n"
