"""Any OpenAI-compatible chat-completions endpoint, a local server included."""

from __future__ import annotations

import re
import time
from dataclasses import replace

from pydantic_core import to_json

from toolbank.chat.chat import ChatReply, ChatRequest
from toolbank.llm.config import EngineConfig
from toolbank.llm.credentials import read_credentials
from toolbank.llm.engines.openai.answer import Answer
from toolbank.llm.engines.openai.completion import (
    CompletionError,
    Format,
    Limit,
    make_body,
    make_identity,
    read_completion,
)
from toolbank.llm.engines.openai.endpoint import Endpoint
from toolbank.llm.engines.openai.errors import status_error, unusable_reply
from toolbank.llm.engines.openai.rate_headers import read_pause
from toolbank.llm.json_answer import MAX_REPLY_CHARACTERS

# What is asked for, best first. A server that refuses one gets the next from then on.
_FORMATS: tuple[Format, ...] = ("json_schema", "json_object", "text")
_ABOUT_FORMAT = re.compile(
    r"response.?format|schema|json.?object|json.?mode|structured|guided|grammar"
    r"|additional.?properties|\bstrict\b",
    re.IGNORECASE,
)
_NEWER_LIMIT: Limit = "max_completion_tokens"


class OpenAIEngine:
    """Asks an endpoint over HTTP, each call once; trying again and time-outs are the caller's.

    What the endpoint doesn't take is put in another way, and so for the rest of the run:
    structured output, and the name of the answer's bound.

    Raises:
        InputError: a public endpoint's key is not in the environment, or may not go there.
    """

    name = "openai"
    offers = None

    def __init__(self, config: EngineConfig) -> None:
        self.model = config.model
        self.identity = make_identity(config)
        self._config = config
        self._credentials = read_credentials(config)
        self._endpoint = Endpoint(config, self._credentials)
        self._has_replied = False
        self._has_seen_page = False
        # By step, since each has a schema of its own.
        self._formats: dict[str, int] = {}
        self._answered: set[tuple[str, int]] = set()
        # What ended in a server's error for its form, it seems: request, and form.
        self._broken: set[tuple[str, int]] = set()
        self._limit: Limit = "max_tokens"

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request; an answer that was cut, refused or left empty is a reply too.

        Raises:
            EngineError: no reply came. It is `fatal` where the key, model or address is refused.
        """
        while True:
            asked = self._formats.get(request.step, 0)
            limit = self._limit
            body = make_body(
                self._config, request, answer_as=_FORMATS[asked], limit=limit
            )
            started = time.perf_counter()
            answer = await self._endpoint.post(to_json(body))
            latency = time.perf_counter() - started
            if answer.status == 200:
                self._answered.add((request.step, asked))
                return self._read(answer, latency)
            if not self._adapt(answer, request, asked, limit):
                raise status_error(
                    answer,
                    self._config.base_url,
                    self.model,
                    self._credentials,
                    body.keys() - {"model", "messages", "response_format"},
                )

    async def close(self) -> None:
        """Let go of connections."""
        await self._endpoint.close()

    def _adapt(
        self, answer: Answer, request: ChatRequest, asked: int, limit: Limit
    ) -> bool:
        """Whether the refused call can be put in a way that this server may take."""
        if answer.status not in (400, 415, 422, 500, 501):
            return False
        if _NEWER_LIMIT in answer.text and limit != _NEWER_LIMIT:
            self._limit = _NEWER_LIMIT
            return True
        step = request.step
        # What it took before, it doesn't refuse for its form.
        is_new = (step, asked) not in self._answered
        if not (
            is_new and asked < len(_FORMATS) - 1 and _ABOUT_FORMAT.search(answer.text)
        ):
            return False
        if answer.status == 500:
            # A server that is starting may say the same; a call's second try tells.
            call = request.key(self.identity), asked
            if call not in self._broken:
                self._broken.add(call)
                return False
        self._formats[step] = max(self._formats.get(step, 0), asked + 1)
        return True

    def _read(self, answer: Answer, latency: float) -> ChatReply:
        try:
            if answer.whole:
                reply = read_completion(answer.body, model=self.model)
            else:
                text = answer.text[:MAX_REPLY_CHARACTERS]
                reply = ChatReply(text, self.model, finish="too-large")
        except CompletionError as error:
            is_sure = self._has_seen_page and not self._has_replied
            self._has_seen_page |= error.reason == "web-page"
            raise unusable_reply(
                error,
                self._config.base_url,
                self._credentials,
                is_sure=is_sure,
            ) from None
        self._has_replied = True
        return replace(
            reply,
            latency=latency,
            pause=read_pause(answer.headers),
        )
