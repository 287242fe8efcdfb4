"""The calls of a hosted Batch API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from toolbank.chat.chat import EngineError
from toolbank.llm.engines.batch.answers import (
    Batch,
    Listed,
    Uploaded,
    odd_answer,
    read_answer,
)
from toolbank.llm.engines.openai.answer import Answer
from toolbank.llm.engines.openai.api_key import read_key
from toolbank.llm.engines.openai.errors import (
    connection_error,
    hide_key,
    status_error,
)
from toolbank.system.errors import ToolbankError
from toolbank.system.files import atomic_path

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

    from toolbank.llm.config import EngineConfig

# The reason of a failure: the endpoint knows no such file, batch or path.
NOT_FOUND = "not-found"

_MARK = "toolbank_mark"
_PAGE = 100
_CHUNK = 2**16
# What an endpoint says that has no such list.
_NO_LIST = frozenset({404, 405, 501})

_Model = TypeVar("_Model", Batch, Listed, Uploaded)


class BatchEndpoint:
    """Uploads files, makes batches of them, looks after them and fetches what comes back.

    Every call is made once: one that makes something may have been heard though it seems to have
    failed, and trying again is the caller's. Every method may raise EngineError.

    Raises:
        InputError: there is no key.
    """

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._key = read_key(config)
        self._client: AsyncOpenAI | None = None

    async def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    def hide_key(self, text: str) -> str:
        """The text of an answer without the key, which an endpoint may have echoed."""
        return hide_key(text, self._key)

    async def find_file(self, name: str, since: float) -> str | None:
        """The id of the newest uploaded file of this name, or ""; None where there is no list.

        Nothing made before `since` (seconds since 1970) is looked at.
        """
        async with self._told(absent_ok=True):
            files = self._connect().files.list(
                purpose="batch", limit=_PAGE, order="desc"
            )
            async for item in files:
                file = self._read_as(Listed, item)
                if file.created_at < since:
                    break
                if file.filename == name:
                    return file.id
            return ""
        return None

    async def find_batch(self, mark: str, since: float) -> str | None:
        """The id of the newest batch with this mark that has not failed, or "".

        None where there is no list.
        """
        async with self._told(absent_ok=True):
            async for item in self._connect().batches.list(limit=_PAGE):
                batch = self._read_as(Listed, item)
                if batch.created_at < since:
                    break
                has_mark = (batch.metadata or {}).get(_MARK) == mark
                if has_mark and batch.status != "failed":
                    return batch.id
            return ""
        return None

    async def upload(self, path: Path, name: str) -> str:
        """Upload a request file under a name, and give its id."""
        client = self._connect().with_options(timeout=self._config.total_timeout)
        async with self._told():
            with path.open("rb") as content:
                file = await client.files.create(file=(name, content), purpose="batch")
            return self._read_as(Uploaded, file).id

    async def create(self, file_id: str, mark: str, name: str) -> str:
        """Make a marked batch of an uploaded file, and give its id."""
        async with self._told():
            batch = await self._connect().batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={_MARK: mark, "toolbank_file": name},
            )
            return self._read_as(Batch, batch).id

    async def retrieve(self, batch_id: str) -> Batch:
        """How far a batch is."""
        async with self._told():
            batch = await self._connect().batches.retrieve(batch_id)
            return self._read_as(Batch, batch)

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
        async with self._told(), call as response:
            async for chunk in response.iter_bytes(_CHUNK):
                yield chunk

    def _read_as(self, model: type[_Model], answer: object) -> _Model:
        return read_answer(model, answer, self._config.base_url)

    def _connect(self) -> AsyncOpenAI:
        if self._client is None:
            import openai

            self._client = openai.AsyncOpenAI(
                api_key=self._key,
                base_url=self._config.base_url,
                timeout=self._config.timeout,
                max_retries=0,
                http_client=openai.DefaultAioHttpClient(),
            )
        return self._client

    @asynccontextmanager
    async def _told(self, *, absent_ok: bool = False) -> AsyncIterator[None]:
        """Tell of a failure as an EngineError; not of a list that is not there, where that is ok."""
        from openai import APIResponseValidationError, APIStatusError

        url = self._config.base_url
        try:
            yield
        except APIStatusError as error:
            if not (absent_ok and error.status_code in _NO_LIST):
                raise self._status_error(error) from error
        except ToolbankError:
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # The SDK takes an answer apart, whatever it is; a bad certificate is a ValueError too.
            if isinstance(error, OSError):
                raise connection_error(error, url, self._key) from error
            raise odd_answer(url, "") from error
        except APIResponseValidationError as error:
            raise odd_answer(url, "") from error
        except Exception as error:
            # The SDK lets the transport's own exceptions through while a body is read.
            raise connection_error(error, url, self._key) from error

    def _status_error(self, error: APIStatusError) -> EngineError:
        if error.status_code == 404:
            return EngineError(
                f"{self._config.base_url}: HTTP 404. Has this endpoint a Batch API, and is "
                "`base_url` right? Without `submit` the files wait to be answered in another way.",
                reason=NOT_FOUND,
                fatal=True,
            )
        response = error.response
        answer = Answer(response.status_code, response.headers, response.content)
        return status_error(
            answer, self._config.base_url, self._config.model, self._key, ()
        )
