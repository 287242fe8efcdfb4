"""Any OpenAI-compatible chat-completions endpoint, local servers included."""

from __future__ import annotations

import json
import re
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import certifi
from pydantic_core import to_json
from yarl import URL

from toolbank.llm.chat import MAX_REPLY_CHARACTERS, ChatReply, ChatRequest, EngineError
from toolbank.llm.config import MOST_AUTO, EngineConfig, read_credentials
from toolbank.llm.engines.openai.completion import (
    CompletionError,
    Format,
    Limit,
    make_body,
    make_identity,
    read_completion,
)
from toolbank.llm.engines.openai.failures import (
    HttpResponse,
    read_pause,
    status_error,
    transfer_error,
    unusable_reply,
)
from toolbank.system.aio import note_progress
from toolbank.system.errors import InputError
from toolbank.system.http import make_connector, read_body, read_parts
from toolbank.system.net import is_private, proxy_of
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.llm.config import Credentials


# Other files that a run has open: the journal, temporary files, libraries.
_OTHER_FILES = 200


def allow_connections(wanted: int) -> int:
    """Raise the limit of open files for so many connections; return how many are possible.

    The soft limit, 1,024 on many systems, is raised up to the hard one. Beyond it, not only calls
    would fail but the journal too.
    """
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    needed = wanted + _OTHER_FILES
    if soft == endless or soft >= needed:
        return wanted
    most = needed if hard == endless else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (ValueError, OSError):  # macOS allows less than it says
        most = soft
    return min(wanted, max(most - _OTHER_FILES, most // 2))


MAX_REPLY_BYTES = 4 * 2**20
# The part that is kept of a larger reply, and read of an error.
_MAX_EXCERPT_BYTES = 400_000
# Most servers close an idle connection after 5 s, and a call must not be sent just then.
_LONGEST_IDLE_S = 4.0
_JSON = {"Content-Type": "application/json"}


def _read_certificates() -> ssl.SSLContext:
    """Read certifi's certificates, and those of the system or the environment."""
    certificates = ssl.create_default_context()
    certificates.load_verify_locations(certifi.where())
    return certificates


class Endpoint:
    """Client of the addresses under a base URL.

    It uses aiohttp and not the OpenAI SDK, whose calls alone take 1.4 to 1.9 times the CPU of a
    whole generation here, and reach 69 % of an endpoint's throughput at 256 in flight where this
    reaches 93 % (benchmarks/RESULTS.md). The SDK also takes a second to import, reads bodies of
    any length, and sends variables meant for another endpoint (OPENAI_ORG_ID,
    OPENAI_CUSTOM_HEADERS). Proxies of the environment are used unless the endpoint is local.

    Raises:
        InputError: the URL, or a proxy or certificates of the environment, can't be used.
    """

    def __init__(
        self,
        config: EngineConfig,
        credentials: Credentials,
        most_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        self._most_bytes = most_bytes
        self._url = base_url = config.base_url
        self._credentials = credentials
        self._most_in_flight = config.most_in_flight
        self.has_replied = self._has_seen_page = False
        self._session: aiohttp.ClientSession | None = None
        try:
            self._base = _parse(base_url).with_query(config.url_query or None)
            self._chat = self._address("chat/completions")
            self._proxy = proxy_of(base_url)
            schemes = {self._base.scheme, URL(self._proxy or "").scheme}
            # Reading them takes a tenth of a second.
            self._certificates = "https" not in schemes or _read_certificates()
        except (OSError, ValueError) as error:
            raise InputError(
                f"base_url: {base_url} is not a valid address, or the proxy or certificates "
                f"that the environment names can't be used ({error})."
            ) from error

    async def post(self, body: bytes) -> HttpResponse:
        """Post a chat request and read the response, whatever its status, without a time limit.

        Raises:
            EngineError: the connection failed, or the body can't be decompressed.
        """
        return await self._request("POST", self._chat, data=body, headers=_JSON)

    async def ask(
        self,
        method: str,
        path: str,
        seconds: float,
        body: bytes | aiohttp.FormData | None = None,
        query: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Send a request to a path and read the response, whatever its status.

        `body` is JSON, or a form with a file: then `seconds` is the longest time between parts of the
        answer, and the caller limits the upload.

        Raises:
            EngineError: as of `post`, or it took longer.
        """
        is_form = isinstance(body, aiohttp.FormData)
        timeout = aiohttp.ClientTimeout(
            total=None if is_form else seconds, sock_read=seconds, sock_connect=seconds
        )
        headers = None if is_form or body is None else _JSON
        address = self._address(path).update_query(query or {})
        return await self._request(
            method, address, data=body, headers=headers, timeout=timeout
        )

    async def download(
        self, path: str, seconds: float, refuse: Callable[[HttpResponse], EngineError]
    ) -> AsyncGenerator[bytes]:
        """Read a file of any length; `seconds` is the longest time without progress.

        Raises:
            EngineError: as of `post`, it took longer, or the error that `refuse` makes of another
                status.
        """
        timeout = aiohttp.ClientTimeout(
            total=None, sock_read=seconds, sock_connect=seconds
        )
        try:
            async with self._send(
                "GET", self._address(path), timeout=timeout
            ) as answer:
                if answer.status != 200:
                    raise refuse(await self._read(answer))
                async for part in read_parts(answer, sys.maxsize):
                    yield part
        except EngineError:
            raise
        except Exception as error:
            raise transfer_error(error, self._url, self._credentials) from error

    def explain(self, problem: CompletionError) -> EngineError:
        """Make the error of an answer that is not what was requested."""
        is_sure = self._has_seen_page and not self.has_replied
        self._has_seen_page |= problem.reason == "web-page"
        return unusable_reply(problem, self._url, self._credentials, is_sure=is_sure)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _address(self, path: str) -> URL:
        base, names = self._base, path.split("/")
        if not names[0]:
            # From the root of the server, whose API is mostly under /v1.
            base, names = base.with_path(_V1.sub("", base.path)), names[1:]
        return base.joinpath(*names).with_query(self._base.query)

    async def _request(self, method: str, address: URL, **options: Any) -> HttpResponse:
        try:
            async with self._send(method, address, **options) as response:
                return await self._read(response)
        except Exception as error:  # of aiohttp or the system
            raise transfer_error(error, self._url, self._credentials) from error

    def _send(
        self, method: str, address: URL, **options: Any
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        session = self._session or self._connect()
        return session.request(
            method, address, allow_redirects=False, proxy=self._proxy, **options
        )

    async def _read(self, response: aiohttp.ClientResponse) -> HttpResponse:
        # The call has left the queue of the server.
        note_progress.get()()
        most = self._most_bytes
        if response.status != 200 or (response.content_length or 0) > most:
            most = _MAX_EXCERPT_BYTES
        body, is_whole = await read_body(response, most)
        body = body if is_whole else body[:_MAX_EXCERPT_BYTES]
        return HttpResponse(response.status, response.headers, body, is_whole)

    def _connect(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            # The user chose the endpoint, so it may be at a private address.
            connector=make_connector(
                guards=False,
                limit=allow_connections(self._most_in_flight),
                keepalive_timeout=_LONGEST_IDLE_S,
                ssl=self._certificates,
            ),
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "gzip, deflate",
                "User-Agent": f"toolbank/{__version__}",
                **self._credentials.headers,
            },
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        return self._session


_V1 = re.compile(r"/v1/?$")


def _parse(url: str) -> URL:
    parts = urlsplit(url)
    if not parts.hostname or parts.port == 0 or not url.isprintable():
        raise ValueError("it names no host or no port")
    return URL(url)


# Forms of structured output, best first. After a refusal the server gets the next one.
_FORMATS: tuple[Format, ...] = ("json_schema", "json_object", "text")
_ABOUT_FORMAT = re.compile(
    r"response.?format|schema|json.?object|json.?mode|structured|guided|grammar"
    r"|additional.?properties|\bstrict\b|requested parameters",
    re.IGNORECASE,
)
_NEWER_LIMIT: Limit = "max_completion_tokens"
# Prompts refused in a row before and after the first reply; one more shows a bad key or model.
_REFUSED_AT_FIRST, _REFUSED_LATER = 2, 16


# Where llama.cpp, LM Studio and Ollama report their state, from the root of the server.
_STATE_PATHS = ("/props", "/api/v1/models", "/api/ps")
_SLOTS_S = 2.0


def read_slots(body: bytes, model: str) -> int | None:
    """Read the slots of llama.cpp, or of a model that LM Studio has loaded.

    Ollama does not report them; by default it has one.
    """
    try:
        said = json.loads(body)
        if "total_slots" in said:
            return _count_slots(said["total_slots"])
        for one in said["models"]:
            for loaded in one.get("loaded_instances") or ():
                if model in (one.get("key"), loaded.get("id")):
                    return _count_slots(loaded["config"]["parallel"])
        return 1 if all("expires_at" in one for one in said["models"]) else None
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def _count_slots(value: Any) -> int | None:
    return value if type(value) is int and 1 <= value <= MOST_AUTO else None


class OpenAIEngine:
    """Calls an endpoint over HTTP, each call once; the caller retries and sets time limits.

    If the endpoint refuses a form of structured output, or the name of the token limit, the next
    form is used for the rest of the run.

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
        # Calls without a reply in a row.
        self._refused = 0
        # By step, since each has its own schema.
        self._formats: dict[str, int] = {}
        self._answered: set[tuple[str, int]] = set()
        # Requests with a form that ended in a server error, possibly because of the form.
        self._broken: set[tuple[str, int]] = set()
        self._limit: Limit = "max_tokens"

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Answer one request; an answer that was cut, refused or left empty is a reply too.

        Raises:
            EngineError: there is no reply; `fatal` if the key, model or address is refused.
        """
        while True:
            form = self._formats.get(request.step, 0)
            limit = self._limit
            body = make_body(
                self._config, request, answer_as=_FORMATS[form], limit=limit
            )
            started = time.perf_counter()
            answer = await self._endpoint.post(to_json(body))
            latency = time.perf_counter() - started
            if answer.status == 200:
                self._answered.add((request.step, form))
                return self._read(answer, latency)
            if not self._adapt(answer, request, form, limit):
                self._refused += answer.status in (403, 404)
                is_first = not self._endpoint.has_replied
                most = _REFUSED_AT_FIRST if is_first else _REFUSED_LATER
                raise status_error(
                    answer,
                    self._config.base_url,
                    self.model,
                    self._credentials,
                    body.keys() - {"model", "messages", "response_format"},
                    is_sure=self._refused > most or (is_first and answer.status == 404),
                )

    async def find_slots(self) -> int | None:
        """Find the number of calls that a local server answers at once; None if unknown."""
        url = self._config.base_url
        if not (is_private(url) or urlsplit(url).port):
            return None
        for path in _STATE_PATHS:
            try:
                answer = await self._endpoint.ask("GET", path, _SLOTS_S)
            except EngineError:
                break
            if answer.status == 200 and (n := read_slots(answer.body, self.model)):
                return n
        return None

    async def close(self) -> None:
        """Close all connections."""
        await self._endpoint.close()

    def _adapt(
        self, answer: HttpResponse, request: ChatRequest, form: int, limit: Limit
    ) -> bool:
        """Adapt to a refusal; return whether the call can be made in another form."""
        if answer.status not in (400, 404, 415, 422, 500, 501):
            return False
        if _NEWER_LIMIT in answer.text and limit != _NEWER_LIMIT:
            self._limit = _NEWER_LIMIT
            return True
        step = request.step
        # A form that was accepted before is not the reason.
        is_new = (step, form) not in self._answered
        if not (
            is_new and form < len(_FORMATS) - 1 and _ABOUT_FORMAT.search(answer.text)
        ):
            return False
        if answer.status == 500:
            # A starting server may say the same, so wait for the call's second try.
            call = request.key(self.identity), form
            if call not in self._broken:
                self._broken.add(call)
                return False
        self._formats[step] = max(self._formats.get(step, 0), form + 1)
        return True

    def _read(self, answer: HttpResponse, latency: float) -> ChatReply:
        try:
            if answer.whole:
                reply = read_completion(answer.body, model=self.model)
            else:
                text = answer.text[:MAX_REPLY_CHARACTERS]
                reply = ChatReply(text, self.model, finish="too-large")
        except CompletionError as error:
            raise self._endpoint.explain(error) from None
        self._endpoint.has_replied = True
        self._refused = 0
        return replace(
            reply,
            latency=latency,
            pause=read_pause(answer.headers),
        )
