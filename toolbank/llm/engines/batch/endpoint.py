"""Client of a hosted Batch API, which checks each response before it is used."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import aiohttp
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json

from toolbank.config.explain import first_problem
from toolbank.llm.chat import EngineError
from toolbank.llm.config import DEFAULT_TIMEOUT_S, read_credentials
from toolbank.llm.engines.openai.engine import Endpoint
from toolbank.llm.engines.openai.failures import HttpResponse, status_error
from toolbank.system.aio import note_progress, time_limit
from toolbank.system.files import atomic_path

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

# The reason of a failure: the endpoint knows no such file, batch or path.
NOT_FOUND = "not-found"
# Failures of an endpoint that can't list batches.
_NO_LIST = frozenset({NOT_FOUND, "http-405", "http-501"})
_MARK = "toolbank_mark"
_PAGE = 100

Id = Annotated[str, Field(pattern=r"^[!-~]{1,200}$")]


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class _Resource(_Response):
    id: Id


class _BatchSummary(_Resource):
    created_at: int | float
    status: str | None = None
    metadata: dict[str, Any] | None = None


class _Page(_Response):
    data: list[_BatchSummary]
    has_more: bool = False


class BatchCounts(_Response):
    """The numbers of requests in a batch, in total and by state."""

    total: int | None = None
    completed: int | None = None
    failed: int | None = None


class BatchProblem(_Response):
    """Why a batch failed."""

    code: str | int | None = None
    message: str | None = None
    line: int | None = None


class _Problems(_Response):
    data: list[BatchProblem] | None = None


class Batch(_Resource):
    """A batch and its state."""

    status: Annotated[str, Field(max_length=40)]
    output_file_id: Id | None = None
    error_file_id: Id | None = None
    errors: _Problems | None = None
    request_counts: BatchCounts | None = None

    @property
    def problems(self) -> list[BatchProblem]:
        """Why it failed, if the endpoint says so."""
        return (self.errors.data if self.errors else None) or []


_Model = TypeVar("_Model", bound=_Response)


class _WatchedFile(io.BufferedReader):
    """A file that calls `note` for each part that is read; aiohttp reads in another thread."""

    def __init__(self, path: Path, note: Callable[[], object]) -> None:
        super().__init__(io.FileIO(path))
        self._note = note

    def read(self, size: int | None = -1, /) -> bytes:
        self._note()
        return super().read(size)


class BatchEndpoint:
    """Uploads files, creates batches, reads their state and downloads their output.

    Every call is made once and not retried, because a call that creates something may have
    succeeded although it seems to have failed. Every method may raise EngineError.

    Raises:
        InputError: there is no key.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self.credentials = read_credentials(config)
        self._endpoint = Endpoint(config, self.credentials)

    async def close(self) -> None:
        """Close all connections."""
        await self._endpoint.close()

    async def find_batch(self, mark: str, since: float) -> str | None:
        """Find the id of the newest batch with this mark that has not failed, or "".

        Batches created before `since` (seconds since 1970) are ignored. None if the endpoint has
        no list.
        """
        query = {"limit": str(_PAGE)}
        while True:
            try:
                page = await self._ask(_Page, "GET", "batches", query=query)
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
            query["after"] = page.data[-1].id

    async def upload(self, path: Path, name: str) -> str:
        """Upload a request file under a name, and return its id."""
        seconds, loop = self._config.total_timeout, asyncio.get_running_loop()
        try:
            async with time_limit(seconds):
                note = partial(loop.call_soon_threadsafe, note_progress.get())
                with _WatchedFile(path, note) as content:
                    form = aiohttp.FormData({"purpose": "batch"})
                    form.add_field("file", content, filename=name)
                    return (await self._ask(_Resource, "POST", "files", form)).id
        except TimeoutError as error:
            raise EngineError(
                f"{self._config.base_url}: the upload of {name} made no progress for {seconds:g} s "
                "(the setting `total_timeout`).",
                reason="timeout",
                retryable=True,
            ) from error

    async def create(self, file_id: str, mark: str, name: str) -> str:
        """Create a batch with this mark from an uploaded file, and return its id."""
        body = {
            "input_file_id": file_id,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {_MARK: mark, "toolbank_file": name},
        }
        return (await self._ask(_Resource, "POST", "batches", to_json(body))).id

    async def retrieve(self, batch_id: str) -> Batch:
        """Get the state of a batch."""
        return await self._ask(Batch, "GET", f"batches/{batch_id}")

    async def download(self, file_id: str, path: Path) -> None:
        """Download a file of replies, whole or not at all.

        Raises:
            ToolbankError: the folder can't be written to, or the disk is full.
        """
        parts = self._endpoint.download(
            f"files/{file_id}/content", self._config.total_timeout, self._refuse
        )
        with atomic_path(path) as temporary, temporary.open("wb") as target:
            async with aclosing(parts):
                async for part in parts:
                    target.write(part)

    async def _ask(
        self,
        model: type[_Model],
        method: str,
        path: str,
        body: bytes | aiohttp.FormData | None = None,
        query: dict[str, str] | None = None,
    ) -> _Model:
        seconds = self._config.timeout or DEFAULT_TIMEOUT_S
        if isinstance(body, aiohttp.FormData):
            seconds = self._config.total_timeout
        answer = await self._endpoint.ask(method, path, seconds, body, query)
        if not 200 <= answer.status < 300:
            raise self._refuse(answer)
        try:
            return model.model_validate_json(answer.body)
        except ValidationError as error:
            raise EngineError(
                f"{self._config.base_url}: the answer is not that of a Batch API "
                f"({first_problem(error)}). Is `base_url` right? You can also submit the files "
                "yourself, without `submit`.",
                reason="not-batch-api",
                fatal=True,
            ) from error

    def _refuse(self, answer: HttpResponse) -> EngineError:
        config = self._config
        if answer.status == 404:
            return EngineError(
                f"{config.base_url}: HTTP 404. Does this endpoint have a Batch API, and is "
                "`base_url` right? You can also submit the files yourself, without `submit`.",
                reason=NOT_FOUND,
                fatal=True,
            )
        return status_error(answer, config.base_url, config.model, self.credentials, ())
