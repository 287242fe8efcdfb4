"""An embedding model at an OpenAI-compatible endpoint; each vector is kept by its text."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, JsonValue

from toolbank.config.base import PATH_IN_RUN, Transport
from toolbank.encoders.base import Encoder
from toolbank.encoders.config import EncoderConfig, EncoderKind, PrefixedConfig
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    EngineError,
    Message,
    estimate_tokens,
    number_from_text,
)
from toolbank.llm.config import (
    BudgetConfig,
    SearchModelConfig,
    find_grants,
    read_credentials,
)
from toolbank.llm.engines.kind import EngineKind, refuse_options
from toolbank.llm.engines.openai.completion import (
    check_settings,
    find_problem,
    read_usage,
)
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.outputs import cache_folder
from toolbank.system.terminal import print_above_bars, print_message

if TYPE_CHECKING:
    from toolbank.llm.engines.openai.failures import HttpResponse

# Settings of chat engines.
_HIDDEN = ("engine", "temperature", "max_tokens", "options", "executor", "workers")


def _hide_settings(schema: dict[str, Any]) -> None:
    for name in _HIDDEN:
        schema["properties"].pop(name, None)


class EndpointConfig(SearchModelConfig, PrefixedConfig):
    """An embedding model at an endpoint (`/v1/embeddings`): embeds texts, and can't be trained."""

    model_config = ConfigDict(json_schema_extra=_hide_settings)
    named_by_content: ClassVar[bool] = True
    is_remote: ClassVar[bool] = True
    section: ClassVar[str] = "retrievers.NAME.encoder"
    call_steps: ClassVar[tuple[str, ...]] = ("embed",)
    only_engine: ClassVar[str] = "toolbank.encoders.endpoint:EMBEDDINGS"

    type: Literal["endpoint"]
    model: str = Field(description="name of the model at the endpoint")
    engine: Transport[Literal["embeddings"]] = Field(default="embeddings", exclude=True)
    temperature: Transport[None] = Field(default=None, exclude=True)
    max_tokens: Transport[Literal[1]] = Field(default=1, exclude=True)
    options: Transport[dict[str, JsonValue]] = Field(default={}, exclude=True)
    executor: Transport[Literal["local"]] = Field(default="local", exclude=True)
    workers: Transport[Literal[1]] = Field(default=1, exclude=True)
    dimensions: int | None = Field(
        default=None,
        ge=1,
        description="length of the vectors, for models that can shorten them; unset: not sent",
    )
    replies: Path = Field(
        default=Path("embeddings.sqlite"),
        description="journal of the calls in the run folder",
        json_schema_extra=PATH_IN_RUN,
    )

    def __hash__(self) -> int:
        """Hash all settings, some of which are mappings."""
        return hash(self.model_dump_json())

    def describe_pack(self) -> str:
        """Say where the searches of a pack send their requests, and by which key."""
        key = f", with the key in {self.api_key_env}" if self.api_key_env else ""
        return (
            f"The pack has no encoder: each search sends its request to {self.model} at "
            f"{self.base_url}{key}, and fails if the endpoint does not answer."
        )

    def packed(self) -> Self:
        """Return the settings for a pack, whose searches have no run folder and no budget."""
        unset = {"replies": Path("embeddings.sqlite"), "price": None}
        return self.model_copy(update={**unset, "budget": BudgetConfig()})


KIND = EncoderKind(EndpointConfig, "toolbank.encoders.endpoint:EndpointEncoder")

_MOST_BYTES = 64 * 2**20
_ABOUT_FORMAT = re.compile(r"encoding.?format|base64", re.IGNORECASE)
_FORMAT_REFUSED = (400, 404, 415, 422, 500, 501)


def _make_identity(config: EndpointConfig) -> str:
    """Name the model and what shapes its vectors."""
    shaping = {"dimensions": config.dimensions, "parameters": config.parameters}
    identity = {"engine": "embeddings", "model": config.model, **shaping}
    return json.dumps(identity, sort_keys=True)


class EmbeddingStore:
    """The vectors of an endpoint's model by their texts, in the user's cache folder.

    All runs share it, so no text is paid for twice. It holds hashes and no texts. Delete the file
    after another model was put behind the same URL and name.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self._path = cache_folder() / "embeddings.sqlite"
        self._prefix = f"{config.base_url}\0{_make_identity(config)}\0"
        # Those that could not be written.
        self._unwritten: dict[bytes, NDArray[np.float32]] = {}

    def get(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Get the vectors of those texts that were embedded before."""
        by_key = {self._key(text): text for text in texts}
        found = {k: v for k, v in self._unwritten.items() if k in by_key}
        with suppress(sqlite3.Error, OSError), closing(self._connect()) as connection:
            for start in range(0, len(by_key), 500):
                keys = [*by_key][start : start + 500]
                marks = ", ".join("?" * len(keys))
                query = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608
                for key, content in connection.execute(query, keys):
                    found[key] = np.frombuffer(content, "<f4")
        return {by_key[key]: vector for key, vector in found.items()}

    def put(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Write vectors, and return when they are on disk."""
        rows = {self._key(text): vector for text, vector in vectors.items()}
        values = [(key, vector.astype("<f4").tobytes()) for key, vector in rows.items()]
        try:
            with closing(self._connect()) as connection, connection:
                statement = "INSERT OR REPLACE INTO vectors VALUES (?, ?)"
                connection.executemany(statement, values)
        except (sqlite3.Error, OSError) as error:
            if not self._unwritten:
                print_above_bars(
                    f"{self._path}: can't be written ({error}), so the same texts are sent and "
                    "paid for again next time. Repair or delete the file."
                )
            self._unwritten |= rows

    def _key(self, text: str) -> bytes:
        whole = f"{self._prefix}{text}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).digest()

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=30)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) "
            "WITHOUT ROWID"
        )
        return connection


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
        self._has_replied = self._has_seen_page = False
        self._sends_format = True
        self._pause = 0.0

    async def answer(self, request: ChatRequest) -> ChatReply:
        """Embed the texts that are not in the store.

        Raises:
            EngineError: there are no vectors, or no usable ones.
        """
        texts = [message.content for message in request.messages]
        known, started = self._store.get(texts), time.perf_counter()
        spent: Counter[str] = Counter()
        if new := [text for text in texts if text not in known]:
            await self._embed(new, spent)
            known |= self._store.get(new)
        vectors = np.stack([known[text] for text in texts])
        return ChatReply(
            base64.b64encode(vectors.astype("<f4").tobytes()).decode(),
            self.model,
            spent["tokens"],
            latency=time.perf_counter() - started,
            estimated=spent["estimated"] > 0,
            pause=self._pause,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._endpoint.close()

    async def _embed(self, texts: Sequence[str], spent: Counter[str]) -> None:
        """Embed texts in one call, or in halves if they are too many or too long for one."""
        try:
            await self._call(texts, spent)
        except EngineError as error:
            if error.reason != "bad-request" or len(texts) == 1:
                error.prompt_tokens += spent["tokens"]
                raise
            half = len(texts) // 2
            await self._embed(texts[:half], spent)
            await self._embed(texts[half:], spent)

    async def _call(self, texts: Sequence[str], spent: Counter[str]) -> None:
        from toolbank.llm.engines.openai.failures import read_pause, status_error

        config = self._config
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if config.dimensions is not None:
            body["dimensions"] = config.dimensions
        if self._sends_format:
            # A quarter of the size of decimal numbers.
            body["encoding_format"] = "base64"
        content = json.dumps({**body, **config.parameters}).encode()
        answer = await self._endpoint.ask(
            "POST", "embeddings", config.total_timeout, content
        )
        if answer.status != 200:
            is_format = answer.status in _FORMAT_REFUSED and _ABOUT_FORMAT.search(
                answer.text
            )
            if self._sends_format and is_format:
                self._sends_format = False
                await self._call(texts, spent)
                return
            raise status_error(
                answer,
                config.base_url,
                self.model,
                self._credentials,
                config.parameters,
                is_sure=not self._has_replied,
            )
        vectors, tokens = self._read(answer, len(texts))
        self._has_replied = True
        self._store.put(dict(zip(texts, vectors, strict=True)))
        self._pause = read_pause(answer.headers)
        spent["tokens"] += tokens or sum(map(estimate_tokens, texts))
        spent["estimated"] += not tokens

    def _read(
        self, answer: HttpResponse, n_texts: int
    ) -> tuple[NDArray[np.float32], int]:
        """Read the vectors [n_texts, d] in the order of the texts, and the tokens that they cost."""
        from toolbank.llm.engines.openai.failures import unusable_reply

        where = f"{self._config.base_url}:"
        if not answer.whole:
            raise EngineError(
                f"{where} the vectors take over {_MOST_BYTES >> 20} MB. Set a smaller `batch_size`.",
                reason="bad-request",
            )
        try:
            reply = json.loads(answer.body)
            rows = [*enumerate(reply["data"])]
            placed = {row.get("index", place): row["embedding"] for place, row in rows}
            vectors = [_decode(placed[place]) for place in sorted(placed)]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            error = find_problem(answer.body)
            is_sure = self._has_seen_page and not self._has_replied
            self._has_seen_page |= error.reason == "web-page"
            url, credentials = self._config.base_url, self._credentials
            raise unusable_reply(error, url, credentials, is_sure=is_sure) from None
        tokens_in, _, total = read_usage(reply.get("usage"))
        problem = ""
        if sorted(placed) != [*range(n_texts)] or len(rows) != n_texts:
            problem = f"has {len(rows):,} vectors for {n_texts:,} texts, or wrong numbers of them"
        elif len({vector.shape for vector in vectors}) > 1 or vectors[0].ndim != 1:
            problem = "has vectors of different lengths"
        elif not all(vector.size and np.isfinite(vector).all() for vector in vectors):
            problem = "has a vector that is empty or has a value that is no number"
        if problem:
            raise EngineError(
                f"{where} the reply {problem}. Is {self.model} an embedding model, and the server "
                "up to date?",
                reason="wrong-vectors",
                retryable=True,
                prompt_tokens=tokens_in or total,
            )
        return np.stack(vectors), tokens_in or total


def _decode(embedding: Any) -> NDArray[np.float32]:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
    return np.array(embedding, np.float32)


def _check(config: EndpointConfig) -> None:
    refuse_options(config)
    check_settings(config)


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

    def embed(self, texts: list[str]) -> NDArray[np.float32]:
        """Embed texts without prefixes: unit vectors [n, dimension].

        Raises:
            InputError: the key or the consent to send it is missing, or the vectors have another
                length than before.
            ToolbankError: a budget is spent, or the endpoint is down or refuses.
        """
        found = self._store.get(texts)
        new = [text for text in dict.fromkeys(texts) if text not in found]
        if new:
            with TemporaryDirectory() as folder:
                found |= self._ask(new, Path(folder))
        widths = {len(found[text]) for text in texts}
        self._width = self._width or min(widths)
        if widths != {self._width}:
            raise InputError(
                f"{self.config.base_url}: {self.config.model} gives vectors of {max(widths)} "
                f"numbers, and those that are there have {self._width}: another model made them. "
                "Use that one, or fit again: toolbank train RUN."
            )
        vectors = np.stack([found[text] for text in texts])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)

    def _encode_new(self, texts: list[str]) -> NDArray[np.float32]:
        return self.embed(texts)

    def _ask(
        self, texts: Sequence[str], folder: Path
    ) -> dict[str, NDArray[np.float32]]:
        from toolbank.llm.searches import ask_searches

        config = self.config
        if not (
            config.replies.is_absolute() and os.access(config.replies.parent, os.W_OK)
        ):
            # Outside of a run nothing adds up the calls.
            config = config.keep_replies(folder / config.replies)
        batches = list(_make_batches(texts, config.batch_size))
        if not self._has_sent:
            self._has_sent = True
            where = f"{config.model} at {config.base_url}"
            print_message(f"{count(len(texts), 'text')} to embed: sending to {where}.")

        def read(number: int, reply: ChatReply) -> NDArray[np.float32]:
            content = np.frombuffer(base64.b64decode(reply.text), "<f4")
            return content.reshape(len(batches[number]), -1)

        answers = ask_searches(
            [_make_request(batch) for batch in batches], read, config
        )
        if failed := [one.failure for one in answers if one.failure]:
            raise ToolbankError(
                f"{len(failed):,} of {count(len(answers), 'call')} for embeddings failed, the last "
                f"with: {failed[-1].detail} The vectors that came are kept."
            )
        found: dict[str, NDArray[np.float32]] = {}
        for batch, answer in zip(batches, answers, strict=True):
            assert isinstance(answer.value, np.ndarray)
            found |= zip(batch, answer.value, strict=True)
        return found


def _make_request(texts: Sequence[str]) -> ChatRequest:
    messages = tuple(Message("user", text) for text in texts)
    return ChatRequest(number_from_text("\n".join(texts)), "embed", messages, {})


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
    if batch:
        yield batch
