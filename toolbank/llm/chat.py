"""Chat requests, replies and errors, and the JSON object in a reply."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Any, Literal, Protocol

from toolbank.bank.records import Tool
from toolbank.system.errors import ToolbankError
from toolbank.system.terminal import one_line
from toolbank.system.text import replace_surrogates

# An estimate should be too high rather than too low: English tokens are longer than this, and a
# Chinese, Japanese or Korean character is at most one token.
_CHARACTERS_PER_TOKEN = 3
_CJK = re.compile("[\u2e80-\U0003ffff]")
# The largest mean length of a tokenizer's tokens over a whole text, without runs of spaces.
_LONGEST_TOKEN = 6


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class WriteTask:
    """Choose `at_least` to `at_most` of `tools` and write a draft that needs them, or decline."""

    tools: tuple[Tool, ...]
    at_most: int
    at_least: int = 2


@dataclass(frozen=True)
class PolishTask:
    """Make `draft` fluent; it needs `tools`, in this order."""

    draft: str
    tools: tuple[Tool, ...]


@dataclass(frozen=True)
class AskTask:
    """Write queries for `tool` alone; `kinds` has the key and the kind of each."""

    tool: Tool
    kinds: Mapping[str, str]


@dataclass(frozen=True)
class VerifyTask:
    """Grade `tools` for the query with the id `query`."""

    query: str
    tools: tuple[str, ...]


Task = WriteTask | PolishTask | AskTask | VerifyTask


@dataclass(frozen=True)
class ChatRequest:
    """One call: the rendered messages and the JSON Schema that the answer must follow.

    `step` is its purpose, such as "write", and the name of the schema. `task` has the same request
    as data, for engines that read no prompts. A `stricter` schema is sent in place of `schema`, and
    is not part of the key.
    """

    attempt: int
    step: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any]
    task: Task | None = None
    stricter: Mapping[str, Any] | None = None

    @property
    def sent_schema(self) -> Mapping[str, Any]:
        """The schema to send."""
        return self.stricter or self.schema

    @property
    def prompt(self) -> str:
        """The text of all messages."""
        return "\n".join(message.content for message in self.messages)

    def key(self, identity: str) -> str:
        """Compute the journal key of this request for an engine's identity."""
        content = [
            identity,
            self.attempt,
            self.step,
            [[message.role, message.content] for message in self.messages],
            self.schema,
        ]
        text = json.dumps(content, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def number_from_text(text: str) -> int:
    """Compute the number of an attempt from its text alone.

    Replies in the journal then stay valid when texts are added.
    """
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6])


@dataclass(frozen=True)
class ChatReply:
    """A reply: the text as sent, the model's own name, and the tokens it cost.

    `finish` is "stop" for a complete answer, else why there is none: `cut-off` (at max_tokens),
    `content-filter` (the model or its filter refused), `empty`, or `too-large` (`text` is the
    beginning). `latency` is the seconds from sending to the last byte, 0 if not measured.
    `estimated`: the endpoint did not report all tokens, and `count_tokens` filled them in.

    The journal does not keep `pause` (the seconds that the endpoint asks all calls to wait),
    `total_tokens` (if only the sum was reported), and `unread` (the characters that the model
    wrote in addition to `text`, such as its reasoning).
    """

    text: str
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish: str = "stop"
    latency: float = field(default=0.0, compare=False)
    estimated: bool = False
    pause: float = field(default=0.0, compare=False)
    total_tokens: int = field(default=0, compare=False)
    unread: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        """Clean the texts, so that the journal returns the same."""
        object.__setattr__(self, "text", replace_surrogates(self.text))
        object.__setattr__(self, "model", replace_surrogates(self.model))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for 3 characters, or for each that is CJK or an emoji."""
    visible = " ".join(text.split())
    n_cjk = len(_CJK.findall(visible))
    return n_cjk + ceil((len(visible) - n_cjk) / _CHARACTERS_PER_TOKEN)


def count_visible(text: str) -> int:
    """Count the characters of a text, a run of spaces as one: it may be a single token."""
    return len(" ".join(text.split()))


def count_tokens(reply: ChatReply, prompt: str, max_tokens: int) -> ChatReply:
    """Estimate the tokens of a reply that the endpoint did not report.

    The estimate uses the prompt and all that the model wrote, including its reasoning. An answer
    that was cut off has `max_tokens`. Reported tokens that are too few for the text are ignored.
    """
    written = count_visible(reply.text) + reply.unread
    tokens_in, tokens_out = reply.prompt_tokens, reply.completion_tokens
    lacks_in = not tokens_in
    lacks_out = (
        _LONGEST_TOKEN * tokens_out < written
        if reply.unread
        else not tokens_out and (written > 0 or reply.finish == "cut-off")
    )
    if not (lacks_in or lacks_out):
        return reply
    if lacks_in:
        tokens_in = estimate_tokens(prompt)
    if lacks_out:
        cut = max_tokens if reply.finish == "cut-off" else 0
        unread = ceil(reply.unread / _CHARACTERS_PER_TOKEN)
        tokens_out = max(tokens_out, cut, estimate_tokens(reply.text) + unread)
    total = reply.total_tokens
    is_alone = not (reply.prompt_tokens or reply.completion_tokens)
    if is_alone and _LONGEST_TOKEN * total >= count_visible(prompt) + written:
        share = tokens_in / max(tokens_in + tokens_out, 1)
        tokens_in = min(tokens_in, round(total * share))
        tokens_out = total - tokens_in
    return replace(
        reply, prompt_tokens=tokens_in, completion_tokens=tokens_out, estimated=True
    )


@dataclass(frozen=True)
class Offer:
    """The candidate tools of an attempt, and how many of them the writer may use.

    If `at_least` is None, the recipe's minimum applies. `contrast` are tools that the writer sees
    and may not use.
    """

    tools: tuple[str, ...]
    at_most: int
    at_least: int | None = None
    contrast: tuple[str, ...] = ()


class Offers(Protocol):
    """The offers of a run; offer i is a pure function of the recipe and i."""

    def offer(self, attempt: int) -> Offer | None:
        """Get the offer of an attempt, or None after the last one."""
        ...


class Engine(Protocol):
    """Answers chat requests. `identity` names the model and every setting that shapes a reply.

    It may have a coroutine `find_slots`, which says how many calls its server answers at once.
    """

    name: str
    model: str
    identity: str

    @property
    def offers(self) -> Offers | None:
        """The attempts that the engine provides, if any."""
        ...

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request.

        Raises:
            EngineError: there is no answer.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class EngineError(ToolbankError):
    """A call without a reply.

    `reason` is a short name that is counted (such as `http-429`, `timeout`). `retryable`: the same
    call may succeed later, after `retry_after` seconds if the server said so. `fatal`: no call of
    this run can succeed (a refused key, an unknown model). The tokens are those that the try was
    charged for, if known; `estimated`: they were not reported.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        retryable: bool = False,
        retry_after: float | None = None,
        fatal: bool = False,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        estimated: bool = False,
    ) -> None:
        super().__init__(replace_surrogates(message))
        self.reason = reason
        self.retryable = retryable
        self.retry_after = retry_after
        self.fatal = fatal
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        self.estimated = estimated

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with its attributes."""
        return partial(EngineError, **vars(self)), self.args


MAX_REPLY_CHARACTERS = 100_000
# How models close their thoughts, whose opening some omit: tags (DeepSeek, Gemma, Seed), [THINK]
# (Magistral), triangles (Kimi), special tokens (Cohere), and the channels of gpt-oss, also without
# their marks.
_THOUGHTS = re.compile(
    r"^.*(?:</(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection)>|\[/THINK\]"
    r"|\u25c1/think\u25b7|<\|end_(?:of_)?(?:thinking|thought)\|>"
    r"|<\|channel\|>final\s*(?:<\|constrain\|>\w+)?<\|message\|>|assistantfinal(?=\s*\{))",
    re.DOTALL | re.IGNORECASE,
)
_OBJECT_START = re.compile(r"\{(?=\s*[\"}])")
# The time of each is proportional to the length of the text.
_MOST_FALSE_STARTS = 100
_EXCERPT = 100


@dataclass(frozen=True)
class Rejection:
    """Why something is not accepted: a short name that is counted, and details."""

    reason: str
    detail: str = ""


def check_finish(reply: ChatReply) -> Rejection | None:
    """Reject a reply that is `cut-off`, `content-filter`, `too-large` or `empty`."""
    details = {
        "cut-off": "cut at max_tokens; set a larger one, mostly so for models that think first",
        "content-filter": "the model or its filter refused to answer",
        "too-large": "over 4 MB came back; its beginning is kept, and `toolbank show` has it",
    }
    if reply.finish == "stop":
        return None
    if reply.finish == "empty" and reply.unread:
        return Rejection("empty", "the model gave its reasoning and no answer")
    return Rejection(reply.finish, details.get(reply.finish, ""))


def find_answer(text: str, keys: Collection[str]) -> dict[str, Any] | Rejection:
    """Find the one JSON object in a reply that has any of the keys, whatever is around it.

    Else reject the reply as `not-json`, `wrong-schema` (no object has the keys),
    `several-objects` that differ, `repeated-key`, or `reply-too-long`. No reply raises.
    """
    if len(text) > MAX_REPLY_CHARACTERS:
        detail = f"{len(text)} characters, at most {MAX_REPLY_CHARACTERS}"
        return Rejection("reply-too-long", detail)
    found = list(find_objects(_THOUGHTS.sub(" ", text)))
    # Other objects in the prose, such as {}, are no answer.
    answers = [item for item in found if not item.keys().isdisjoint(keys)]
    if not answers:
        reason = "wrong-schema" if found else "not-json"
        return Rejection(reason, one_line(text, _EXCERPT))
    if any(answer != answers[0] for answer in answers):
        return Rejection("several-objects", f"{len(answers)} objects")
    if any(isinstance(answer, _RepeatedKeys) for answer in answers):
        return Rejection("repeated-key")
    return answers[0]


class _RepeatedKeys(dict[str, Any]):
    """An object with the same key twice, so that its meaning is unclear."""


def _pairs_to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else _RepeatedKeys(value)


def find_objects(text: str) -> Iterator[dict[str, Any]]:
    """Find all outermost JSON objects of a text; their strings may have raw line breaks."""
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_pairs_to_object)
    failures = 0
    brace = _OBJECT_START.search(text)
    while brace and failures < _MOST_FALSE_STARTS:
        try:
            value, end = decoder.raw_decode(text, brace.start())
        except (ValueError, RecursionError):
            end = brace.start() + 1
            failures += 1
        else:
            yield value
        brace = _OBJECT_START.search(text, end)
