"""An embedding model at an OpenAI-compatible endpoint; each vector is kept by its text."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from toolbank.encoders.base import Encoder
from toolbank.encoders.config import EncoderConfig
from toolbank.encoders.endpoint_config import EndpointConfig
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    EngineError,
    Message,
    estimate_tokens,
)
from toolbank.llm.config import (
    DEFAULT_TIMEOUT_S,
    BudgetConfig,
    find_grants,
    read_credentials,
)
from toolbank.llm.engines.kind import EngineKind, refuse_taken
from toolbank.llm.engines.openai.completion import find_problem, read_usage
from toolbank.system import deadline
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.outputs import cache_folder
from toolbank.system.terminal import print_above_bars, print_message
from toolbank.training.ranks import world_size

if TYPE_CHECKING:
    from toolbank.llm.engines.openai.failures import HttpResponse

Vectors = dict[str, NDArray[np.float32]]
"""Vectors [d] by their texts."""

_EXCERPT = 80
_MOST_BYTES = 64 * 2**20
_ABOUT_FORMAT = re.compile("encoding[_ ]?format|base64", re.IGNORECASE)


def _make_identity(config: EndpointConfig) -> str:
    """Name the model and what shapes its vectors."""
    identity = config.model_dump(include={"model", "dimensions", "parameters"})
    return json.dumps({"engine": "embeddings", **identity}, sort_keys=True)


class EmbeddingStore:
    """The vectors of an endpoint's model by their texts, in the user's cache folder.

    All runs share it, so no text is paid for twice. It holds hashes and no texts. Delete the file
    after another model was put behind the same URL and name. Such a model is only noticed if its
    vectors have another length than those before.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self.path = cache_folder() / "embeddings.sqlite"
        self._prefix = f"{config.base_url}\0{_make_identity(config)}\0"
        self._is_broken = False

    def get(self, texts: Sequence[str]) -> Vectors:
        """Get the vectors of those texts that were embedded before."""
        found: Vectors = {}
        query = "SELECT vector FROM vectors WHERE key = ?"
        with suppress(sqlite3.Error, OSError), closing(self._connect()) as connection:
            for text in dict.fromkeys(texts):
                if row := connection.execute(query, [self._key(text)]).fetchone():
                    found[text] = np.frombuffer(row[0], "<f4")
        return found

    def fix_width(self, width: int) -> int:
        """Set the length of the model's vectors unless it is set; return what it is."""
        # The key of no text: theirs have a separator more.
        row = _hash(self._prefix[:-1]), bytes(4 * width)
        query = "SELECT length(vector) / 4 FROM vectors WHERE key = ?"
        with suppress(sqlite3.Error, OSError), closing(self._connect()) as connection:
            with connection:
                connection.execute("INSERT OR IGNORE INTO vectors VALUES (?, ?)", row)
            return int(connection.execute(query, row[:1]).fetchone()[0])
        return width

    def put(self, vectors: Vectors) -> None:
        """Write vectors, and return when they are on disk."""
        rows = [(self._key(t), v.astype("<f4").tobytes()) for t, v in vectors.items()]
        try:
            with closing(self._connect()) as connection, connection:
                statement = "INSERT OR REPLACE INTO vectors VALUES (?, ?)"
                connection.executemany(statement, rows)
        except (sqlite3.Error, OSError) as error:
            if not self._is_broken:
                print_above_bars(
                    f"{self.path}: can't be written ({error}), so the same texts are sent and "
                    "paid for again next time. Repair or delete the file."
                )
            self._is_broken = True

    def _key(self, text: str) -> bytes:
        return _hash(f"{self._prefix}{text}")

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=30)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) "
            "WITHOUT ROWID"
        )
        return connection


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _explain_width(config: EndpointConfig, width: int, known: int, cache: Path) -> str:
    given = f"{config.base_url}: {config.model} gives vectors of {width} numbers"
    if config.dimensions == known:
        return f"{given}, not of {known}. Remove `dimensions`, which it ignores."
    return (
        f"{given}, and those from before have {known}: another model is behind this URL and name. Start the model from "
        f"before again. Or delete {cache} (or give the model another name), and fit again: "
        "toolbank train RUN."
    )


@dataclass
class _Embedded:
    """The vectors for one request, and what they cost."""

    vectors: Vectors
    tokens: int = 0
    estimated: bool = False
    pause: float = 0.0


class EmbeddingEngine:
    """Embeds the messages of a request; its reply has the vectors as base64.

    Vectors are in the store before a reply counts, so none is lost if the process is killed.

    Raises:
        InputError: a key is not in the environment, or may not go there; the URL is not valid.
    """

    name, offers = "embeddings", None

    def __init__(self, config: EndpointConfig) -> None:
        from toolbank.llm.engines.openai.engine import Endpoint

        self.model, self.identity = config.model, _make_identity(config)
        self._config = config
        self._credentials = read_credentials(config)
        self._endpoint = Endpoint(config, self._credentials, _MOST_BYTES)
        self._store = EmbeddingStore(config)
        self._sends_format = True
        self._most = config.batch_size

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Embed the texts that are not in the store.

        Raises:
            EngineError: there are no vectors, or no usable ones.
        """
        started = time.perf_counter()
        texts = [message.content for message in request.messages]
        made = _Embedded(self._store.get(texts))
        if new := [text for text in texts if text not in made.vectors]:
            refused = await self._embed(new, made)
            if refused:
                raise _explain_refused(refused, made)
        vectors = np.stack([made.vectors[text] for text in texts])
        return ChatReply(
            base64.b64encode(vectors.astype("<f4").tobytes()).decode(),
            self.model,
            made.tokens,
            latency=time.perf_counter() - started,
            estimated=made.estimated,
            pause=made.pause,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._endpoint.close()

    async def _embed(
        self, texts: Sequence[str], made: _Embedded
    ) -> dict[str, EngineError]:
        """Embed texts in one call, or in halves if they are too many or too long for one.

        Later calls have as many as were taken. Returns the texts that are refused even alone.
        """
        refused: dict[str, EngineError] = {}
        while texts and (self._endpoint.has_replied or not refused):
            part, texts = texts[: self._most], texts[self._most :]
            half = len(part) // 2
            try:
                await self._call(part, made)
            except EngineError as error:
                if error.reason != "bad-request":
                    error.prompt_tokens += made.tokens
                    raise
                if not half:
                    refused[part[0]] = error
                    continue
                for some in (part[:half], part[half:]):
                    if self._endpoint.has_replied or not refused:
                        refused |= await self._embed(some, made)
                if not refused:
                    self._most = min(self._most, len(part) - half)
        return refused

    async def _call(self, texts: Sequence[str], made: _Embedded) -> None:
        from toolbank.llm.engines.openai.failures import read_pause, status_error

        config = self._config
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if config.dimensions is not None:
            body["dimensions"] = config.dimensions
        if sends_format := self._sends_format:
            # A quarter of the size of decimal numbers.
            body["encoding_format"] = "base64"
        content = json.dumps({**body, **config.parameters}).encode()
        answer = await self._endpoint.ask(
            "POST", "embeddings", config.total_timeout, content
        )
        if answer.status != 200:
            if sends_format and _ABOUT_FORMAT.search(answer.text):
                self._sends_format = False
                return await self._call(texts, made)
            raise status_error(
                answer,
                config.base_url,
                self.model,
                self._credentials,
                config.parameters,
                is_sure=not self._endpoint.has_replied,
            )
        vectors, tokens = self._read(answer, len(texts))
        self._endpoint.has_replied = True
        new = dict(zip(texts, vectors, strict=True))
        width = len(vectors[0])
        if (known := self._store.fix_width(width)) != width:
            raise EngineError(
                _explain_width(config, width, known, self._store.path),
                reason="wrong-vectors",
                fatal=True,
                prompt_tokens=tokens,
            )
        self._store.put(new)
        made.vectors |= new
        made.tokens += tokens or sum(map(estimate_tokens, texts))
        made.estimated |= not tokens
        made.pause = read_pause(answer.headers)
        return None

    def _read(
        self, answer: HttpResponse, n_texts: int
    ) -> tuple[list[NDArray[np.float32]], int]:
        """Read the vectors [d] in the order of the texts, and the tokens that they cost."""
        url = self._config.base_url
        if not answer.whole:
            raise EngineError(
                f"{url}: the vectors take over {_MOST_BYTES >> 20} MB. Set a smaller `batch_size`.",
                reason="bad-request",
            )
        try:
            reply = json.loads(answer.body)
            rows = [*enumerate(reply["data"])]
            placed = {row.get("index", place): row["embedding"] for place, row in rows}
            vectors = [_decode(placed[place]) for place in sorted(placed)]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise self._endpoint.explain(find_problem(answer.body)) from None
        tokens_in, _, total = read_usage(reply.get("usage"))
        problem = ""
        if sorted(placed) != [*range(n_texts)] or len(rows) != n_texts:
            problem = (
                f"{len(rows):,} vectors for {n_texts:,} texts, or wrong numbers of them"
            )
        elif len({vector.shape for vector in vectors}) > 1 or vectors[0].ndim != 1:
            problem = "vectors of different lengths"
        elif not (np.isfinite(vectors).all() and np.any(vectors, axis=1).all()):
            problem = (
                "a vector that is empty, all zeros, or has a value that is no number"
            )
        if problem:
            raise EngineError(
                f"{url}: the reply has {problem}. Is {self.model} an embedding model, and the "
                "server up to date?",
                reason="wrong-vectors",
                retryable=True,
                prompt_tokens=tokens_in or total,
            )
        return vectors, tokens_in or total


def _explain_refused(refused: dict[str, EngineError], made: _Embedded) -> EngineError:
    text, error = next(iter(refused.items()))
    return EngineError(
        f"{error} Refused even alone: {count(len(refused), 'text')}, the first of {len(text):,} "
        f"characters: {text[:_EXCERPT]!r}. If it is too long, let the server cut it (for TEI: "
        "`parameters: {truncate: true}`), shorten it, or leave out the tool that it describes.",
        reason=error.reason,
        retryable=error.retryable,
        prompt_tokens=made.tokens,
    )


def _decode(embedding: Any) -> NDArray[np.float32]:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
    return np.array(embedding, np.float32)


_TAKEN = {
    "model": "use the setting `model`",
    "input": "it has the texts",
    "dimensions": "use the setting `dimensions`",
    "encoding_format": "vectors are read as base64 or as numbers, whichever the endpoint sends",
}


def _check(config: EndpointConfig) -> None:
    refuse_taken(f"{config.section}.parameters", config.parameters, _TAKEN)


EMBEDDINGS = EngineKind["EndpointConfig"](
    name="embeddings",
    make=lambda config, _: EmbeddingEngine(config),
    check=_check,
    check_access=read_credentials,
    sends=find_grants,
    identity=lambda config, _: _make_identity(config),
    describe=lambda config: f"{config.model} at {config.base_url}",
    place=lambda config: config.base_url,
    # The reply has no text whose tokens could be estimated.
    asks_model=False,
)

# Estimated, and fewer than any endpoint takes in a request.
_MOST_TOKENS = 8_000


class EndpointEncoder(Encoder):
    """Embeds by calls to an endpoint, of those texts that the store does not hold."""

    # The store has all, and 50,000 of the longest vectors would take 800 MB of a server's memory.
    remembered = 5_000
    config: EndpointConfig

    def __init__(self, config: EndpointConfig) -> None:
        super().__init__(config)
        self._store = EmbeddingStore(config)
        self._width = config.dimensions or 0
        self._has_sent = False

    @classmethod
    def read(cls, name: str, config: EncoderConfig) -> Self:  # noqa: ARG003
        """Make the encoder; nothing is called."""
        assert isinstance(config, EndpointConfig)
        return cls(config)

    @property
    def dimension(self) -> int:
        """Length of a vector; 0 before the first one."""
        return self._width

    def of_width(self, width: int) -> Self:
        """Return itself if its vectors have the length of saved ones, as far as that is known."""
        self._width = self._width or width
        return super().of_width(width)

    def settings_in_pack(self) -> EncoderConfig:
        """Return settings without run folder and budget, and print where searches send to."""
        config = self.config
        key = f", with the key in {config.api_key_env}" if config.api_key_env else ""
        print_message(
            f"The pack has no encoder: each search sends its request to {config.model} at "
            f"{config.base_url}{key}, and fails if the endpoint does not answer."
        )
        replies = Path("embeddings.sqlite")
        unset = {"replies": replies, "price": None, "budget": BudgetConfig()}
        return config.model_copy(update=unset)

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Embed texts without prefixes: unit vectors [n, dimension].

        Raises:
            InputError: the key or the consent to send it is missing, or the vectors have another
                length than before.
            ToolbankError: a budget is spent, or the endpoint is down or refuses.
        """
        found = self._store.get(texts)
        if new := [text for text in dict.fromkeys(texts) if text not in found]:
            found |= self._ask(new)
        widths = {len(found[text]) for text in texts}
        self._width = self._width or min(widths)
        if widths != {self._width}:
            [width, *_] = widths - {self._width}
            cache = self._store.path
            raise InputError(_explain_width(self.config, width, self._width, cache))
        vectors = np.stack([found[text] for text in texts])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)

    def _encode_new(self, texts: list[str]) -> NDArray[np.float32]:
        return self.embed(texts)

    def _ask(self, texts: Sequence[str]) -> Vectors:
        from toolbank.llm.searches import ask_searches

        if not self._has_sent:
            self._has_sent = True
            where = f"{self.config.model} at {self.config.base_url}"
            print_message(f"{count(len(texts), 'text')} to embed: sending to {where}.")
        batches = list(_make_batches(texts, self.config.batch_size))
        requests = [_make_request(batch) for batch in batches]

        def read(number: int, reply: ChatReply) -> Vectors:
            content = np.frombuffer(base64.b64decode(reply.text), "<f4")
            batch = batches[number]
            return dict(zip(batch, content.reshape(len(batch), -1), strict=True))

        limited = _limit_time(self.config)
        if self._width:
            self._store.fix_width(self._width)
        with _keep_calls(limited) as config:
            answers = ask_searches(requests, read, config)
        if failed := [one.failure for one in answers if one.failure]:
            notes = [f"{failed[-1].detail}"]
            if len(failed) < len(answers):
                notes.append(f"{self.config.kept}.")
            if limited is not self.config:
                notes.append("A search ends its calls in time, whatever the settings.")
            raise ToolbankError(
                f"{len(failed):,} of {count(len(answers), 'call')} for embeddings failed, the last "
                f"with: {' '.join(notes)}"
            )
        parts = (one.value for one in answers if isinstance(one.value, dict))
        return {text: vector for part in parts for text, vector in part.items()}


def _limit_time(config: EndpointConfig) -> EndpointConfig:
    """Give the settings of calls that end within a search, even if the endpoint says nothing.

    Raises:
        ToolbankError: the time of the search is over.
    """
    left = round(deadline.seconds_left(), 1)
    if left <= 0:
        raise ToolbankError(f"{config.base_url}: there was no time left for a call.")
    limits = {
        # So that one silent call leaves time for another.
        "timeout": min(config.timeout or DEFAULT_TIMEOUT_S, left / 2),
        "total_timeout": min(config.total_timeout, left),
        "max_outage": min(config.max_outage, left),
    }
    return config if left == inf else config.model_copy(update=limits)


@contextmanager
def _keep_calls(config: EndpointConfig) -> Iterator[EndpointConfig]:
    """Give the settings with a journal in the run folder, or outside of a run a temporary one."""
    from filelock import FileLock

    replies = config.replies
    with suppress(OSError):
        replies.parent.mkdir(exist_ok=True)
    if replies.is_absolute() and os.access(replies.parent, os.W_OK):
        # Under torchrun all processes embed the same texts, which one of them sends.
        with FileLock(f"{replies}.lock") if world_size() > 1 else nullcontext():
            yield config
    else:
        with TemporaryDirectory() as folder:
            yield config.keep_replies(Path(folder, replies.name))


def _make_request(texts: Sequence[str]) -> ChatRequest:
    messages = tuple(Message("user", text) for text in texts)
    # Never the key of an earlier call: the vectors in its reply may be of another model, and those
    # that are still right are in the store.
    return ChatRequest(time.time_ns(), "embed", messages, {})


def _make_batches(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    batch: list[str] = []
    tokens = 0
    for text in texts:
        size = estimate_tokens(text)
        if batch and (len(batch) == most or tokens + size > _MOST_TOKENS):
            yield batch
            batch, tokens = [], 0
        batch.append(text)
        tokens += size
    yield batch
