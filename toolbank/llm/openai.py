"""Any OpenAI-compatible chat-completions endpoint, a local server included."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from toolbank.errors import InputError
from toolbank.llm.api_key import read_key
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.endpoint_errors import (
    connection_error,
    status_error,
    unusable_reply,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai._response import AsyncAPIResponse

    from toolbank.llm.config import EngineConfig

MAX_REPLY_BYTES = 4 * 2**20

# What is asked for, best first. A server that refuses one gets the next from then on.
_FORMATS = ("json_schema", "json_object", "text")
_ABOUT_FORMAT = re.compile(
    r"response.?format|json.?schema|json.?object|json.?mode|structured|guided|grammar",
    re.IGNORECASE,
)

# So many failures in a row, with no reply between them, and the endpoint counts as down.
_DOWN_AT_START = 3
_DOWN_PER_CONCURRENT_CALL = 10
# The failure of an endpoint that is up: the model answered, at no end.
_TOO_LARGE = "reply-too-large"


class OpenAIEngine:
    """Asks an endpoint over HTTP, each call once; trying again is the caller's.

    `identity` leaves out where the endpoint is and how it is reached (URL, key, timeout,
    concurrency): the same model behind another port is not asked again.

    Raises:
        InputError: no model is named, or a public endpoint's key is not in the environment.
    """

    name = "openai"
    offers = None

    def __init__(self, config: EngineConfig) -> None:
        if not config.model:
            raise InputError(
                f"model: not set. Name the model as {config.base_url} does, "
                "for example --set generate.model=NAME."
            )
        self.model = config.model
        self.identity = json.dumps(
            {
                "engine": self.name,
                "model": config.model,
                "temperature": config.temperature,
                "max_tokens": config.max_tokens,
            }
        )
        self._config = config
        self._key = read_key(config)
        self._client: AsyncOpenAI | None = None
        self._format = 0
        self._limit = "max_tokens"
        self._answered = False
        self._failures = 0

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request; an answer that was cut, refused or left empty is a reply too.

        Raises:
            EngineError: no reply came. It is `fatal` where the key or model is refused,
                and where the endpoint has failed so often in a row that it counts as down.
        """
        try:
            reply = await self._answer(request)
        except EngineError as error:
            self._failures += error.reason != _TOO_LARGE
            error.fatal = error.fatal or self._is_down()
            raise
        self._answered = True
        self._failures = 0
        return reply

    async def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _is_down(self) -> bool:
        patience = _DOWN_PER_CONCURRENT_CALL * self._config.most_in_flight
        return self._failures >= (patience if self._answered else _DOWN_AT_START)

    async def _answer(self, request: ChatRequest) -> ChatReply:
        from openai import APIConnectionError, APIStatusError

        url = self._config.base_url
        while True:
            asked_format, asked_limit = self._format, self._limit
            try:
                async with asyncio.timeout(self._config.timeout):
                    body = await self._post(request)
                break
            except TimeoutError as error:
                raise EngineError(
                    f"{url}: no reply within {self._config.timeout:g} s "
                    "(the setting `timeout`).",
                    reason="timeout",
                    retryable=True,
                ) from error
            except APIConnectionError as error:
                raise connection_error(error, url, self._key) from error
            except APIStatusError as error:
                if not self._adapt(error, asked_format, asked_limit):
                    raise status_error(error, url, self.model, self._key) from error
        return self._read(body)

    async def _post(self, request: ChatRequest) -> bytes:
        options: dict[str, Any] = {self._limit: self._config.max_tokens}
        response_format = _response_format(_FORMATS[self._format], request)
        if response_format:
            options["response_format"] = response_format
        messages: Any = [asdict(message) for message in request.messages]
        create = self._connect().chat.completions.with_streaming_response.create
        async with create(
            model=self.model,
            messages=messages,
            temperature=self._config.temperature,
            **options,
        ) as response:
            return await self._read_body(response)

    async def _read_body(self, response: AsyncAPIResponse[Any]) -> bytes:
        body = bytearray()
        try:
            async for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_REPLY_BYTES:
                    break
        except Exception as error:
            # The SDK lets the transport's own exceptions through while a body is read.
            raise connection_error(error, self._config.base_url, self._key) from error
        if len(body) > MAX_REPLY_BYTES:
            raise EngineError(
                f"{self._config.base_url}: a reply of more than "
                f"{MAX_REPLY_BYTES // 2**20} MB; it was not read further.",
                reason=_TOO_LARGE,
            )
        return bytes(body)

    def _connect(self) -> AsyncOpenAI:
        if self._client is None:
            import openai

            calls = self._config.most_in_flight
            limits = type(openai.DEFAULT_CONNECTION_LIMITS)(
                max_connections=calls, max_keepalive_connections=calls
            )
            self._client = openai.AsyncOpenAI(
                api_key=self._key,
                base_url=self._config.base_url,
                timeout=None,
                max_retries=0,
                http_client=openai.DefaultAioHttpClient(limits=limits),
            )
        return self._client

    def _adapt(self, error: Any, asked_format: int, asked_limit: str) -> bool:
        """Whether the refused call can be put in a way that this server may take."""
        text = error.response.text
        if error.status_code not in (400, 415, 422, 500, 501):
            return False
        if "max_completion_tokens" in text and asked_limit == "max_tokens":
            self._limit = "max_completion_tokens"
            return True
        if _ABOUT_FORMAT.search(text) and asked_format < len(_FORMATS) - 1:
            self._format = max(self._format, asked_format + 1)
            return True
        return False

    def _read(self, body: bytes) -> ChatReply:
        url = self._config.base_url
        try:
            completion = json.loads(body)
            choice = completion["choices"][0]
            message = choice["message"]
            content = message.get("content")
            finish = choice.get("finish_reason")
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            raise unusable_reply(body, url, self._key) from None
        refusal = message.get("refusal")
        text = next((t for t in (content, refusal) if isinstance(t, str)), "")
        usage = completion.get("usage")
        return ChatReply(
            text=_encodable(text),
            model=_encodable(str(completion.get("model") or self.model)),
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
            finish=_read_finish(finish, text, bool(refusal)),
        )


def _response_format(kind: str, request: ChatRequest) -> dict[str, Any] | None:
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": kind}
    schema = {"name": request.stage, "strict": True, "schema": dict(request.schema)}
    return {"type": kind, "json_schema": schema}


def _read_finish(reason: Any, text: str, refused: bool) -> str:
    """What `ChatReply.finish` says of a choice; some servers give no reason."""
    if reason == "content_filter" or refused:
        return "content-filter"
    if reason == "length":
        return "cut-off"
    return "stop" if text.strip() else "empty"


def _encodable(text: str) -> str:
    """Lone surrogates, which JSON can smuggle in, can't be written to any file."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0
