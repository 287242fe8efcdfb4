"""The calls of a hosted Batch API, and its answers, checked before any of them is used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolbank.config.explain import first_problem
from toolbank.llm.chat import EngineError
from toolbank.llm.config import DEFAULT_TIMEOUT_S, NO_KEY, read_credentials
from toolbank.llm.engines.openai.errors import Answer, connection_error, status_error
from toolbank.system.errors import ToolbankError
from toolbank.system.files import atomic_path

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

    from toolbank.llm.config import EngineConfig

# The reason of a failure: the endpoint knows no such file, batch or path.
NOT_FOUND = "not-found"
# What an endpoint says that has no such list.
_NO_LIST = frozenset({NOT_FOUND, "http-405", "http-501"})
_MARK = "toolbank_mark"
_PAGE = 100
_CHUNK = 2**16
# The headers that the transport needs, and how those begin by which the SDK finds its way.
_SDK = "x-stainless-"
_PLAIN = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type"),
        *("host", "transfer-encoding", "user-agent"),
    }
)

Id = Annotated[str, Field(pattern=r"^[!-~]{1,200}$")]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class _Made(_Answer):
    id: Id


class _Listed(_Made):
    created_at: int | float
    status: str | None = None
    metadata: dict[str, Any] | None = None


class _Page(_Answer):
    data: list[_Listed]
    has_more: bool = False


class Counts(_Answer):
    """The requests of a batch, and those of them that are done."""

    total: int | None = None
    completed: int | None = None
    failed: int | None = None


class Problem(_Answer):
    """Why a batch failed."""

    code: str | int | None = None
    message: str | None = None
    line: int | None = None


class _Problems(_Answer):
    data: list[Problem] | None = None


class Batch(_Made):
    """A batch and how far it is."""

    status: Annotated[str, Field(max_length=40)]
    output_file_id: Id | None = None
    error_file_id: Id | None = None
    errors: _Problems | None = None
    request_counts: Counts | None = None

    @property
    def problems(self) -> list[Problem]:
        """Why it failed, where the endpoint says so."""
        return (self.errors.data if self.errors else None) or []


_Model = TypeVar("_Model", bound=_Answer)


class BatchEndpoint:
    """Uploads files, makes batches of them, looks after them and fetches what comes back.

    Every call is made once: one that makes something may have been heard though it seems to have
    failed, and trying again is the caller's. Every method may raise EngineError.

    Raises:
        InputError: there is no key.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._credentials = read_credentials(config)
        self._client: AsyncOpenAI | None = None

    async def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def hide(self, text: str) -> str:
        """The text of an answer without the key, which an endpoint may have echoed."""
        return self._credentials.hide(text)

    async def find_batch(self, mark: str, since: float) -> str | None:
        """The id of the newest batch with this mark that has not failed, or "".

        Nothing made before `since` (seconds since 1970) is looked at. None where there is no
        list.
        """
        batches = self._connect().batches.with_raw_response
        after: dict[str, object] = {}
        while True:
            try:
                call = batches.list(limit=_PAGE, extra_query=after)
                page = await self._ask(call, _Page)
            except EngineError as error:
                if error.reason in _NO_LIST:
                    return None
                raise
            for batch in page.data:
                if batch.created_at < since:
                    return ""
                has_mark = (batch.metadata or {}).get(_MARK) == mark
                if has_mark and batch.status != "failed":
                    return batch.id
            if not (page.data and page.has_more):
                return ""
            after = {"after": page.data[-1].id}

    async def upload(self, path: Path, name: str) -> str:
        """Upload a request file under a name, and give its id."""
        client = self._connect().with_options(timeout=self._config.total_timeout)
        with path.open("rb") as content:
            call = client.files.with_raw_response.create(
                file=(name, content), purpose="batch"
            )
            return (await self._ask(call, _Made)).id

    async def create(self, file_id: str, mark: str, name: str) -> str:
        """Make a marked batch of an uploaded file, and give its id."""
        call = self._connect().batches.with_raw_response.create(
            input_file_id=file_id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={_MARK: mark, "toolbank_file": name},
        )
        return (await self._ask(call, _Made)).id

    async def retrieve(self, batch_id: str) -> Batch:
        """How far a batch is."""
        batches = self._connect().batches.with_raw_response
        return await self._ask(batches.retrieve(batch_id), Batch)

    async def download(self, file_id: str, path: Path) -> None:
        """Fetch a file of replies; it is whole or not there.

        Raises:
            ToolbankError: the folder can't be written to, or the disk is full.
        """
        with atomic_path(path) as temporary, temporary.open("wb") as target:
            async for chunk in self._read(file_id):
                target.write(chunk)

    async def _read(self, file_id: str) -> AsyncIterator[bytes]:
        client = self._connect().with_options(timeout=self._config.total_timeout)
        call = client.files.with_streaming_response.content(file_id)
        with self._explained():
            async with call as response:
                async for chunk in response.iter_bytes(_CHUNK):
                    yield chunk

    async def _ask(self, call: Awaitable[Any], model: type[_Model]) -> _Model:
        with self._explained():
            response = await call
        try:
            return model.model_validate_json(response.content)
        except ValidationError as error:
            raise EngineError(
                f"{self._config.base_url}: the answer is not that of a Batch API "
                f"({first_problem(error)}). Is `base_url` right? Without `submit` the files "
                "wait to be answered in another way.",
                reason="not-batch-api",
                fatal=True,
            ) from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Have the failure of a call as an EngineError."""
        from openai import APIStatusError

        try:
            yield
        except APIStatusError as error:
            raise self._status_error(error) from error
        except ToolbankError:
            raise
        except Exception as error:
            # The SDK lets the transport's own exceptions through while a body is read.
            raise connection_error(
                error, self._config.base_url, self._credentials
            ) from error

    def _status_error(self, error: APIStatusError) -> EngineError:
        config, response = self._config, error.response
        if response.status_code == 404:
            return EngineError(
                f"{config.base_url}: HTTP 404. Has this endpoint a Batch API, and is "
                "`base_url` right? Without `submit` the files wait to be answered in another "
                "way.",
                reason=NOT_FOUND,
                fatal=True,
            )
        answer = Answer(response.status_code, response.headers, response.content)
        return status_error(
            answer, config.base_url, config.model, self._credentials, ()
        )

    async def _sign(self, request: Any) -> None:
        """Put in what is to be sent, and take out what the environment says of other endpoints."""
        for name in set(request.headers) - _PLAIN:
            if not name.startswith(_SDK):
                del request.headers[name]
        request.headers.update(self._credentials.headers)

    def _connect(self) -> AsyncOpenAI:
        if self._client is None:
            import openai

            self._client = openai.AsyncOpenAI(
                # What is sent, the hook puts in.
                api_key=NO_KEY,
                base_url=self._config.base_url,
                default_query=self._config.url_query,
                timeout=self._config.timeout or DEFAULT_TIMEOUT_S,
                max_retries=0,
                http_client=openai.DefaultAioHttpClient(
                    follow_redirects=False, event_hooks={"request": [self._sign]}
                ),
            )
        return self._client
