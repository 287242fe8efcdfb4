"""The exchange with a hosted Batch API: submit, wait, fetch."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm import tqdm

from toolbank.files import sha256_file
from toolbank.llm.batch.endpoint import NOT_FOUND, BatchEndpoint
from toolbank.llm.batch.submissions import Submission, Submissions
from toolbank.llm.chat import EngineError
from toolbank.terminal import tell

if TYPE_CHECKING:
    from openai.types import Batch

    from toolbank.llm.config import EngineConfig

_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
# The account may have no more tokens waiting at once.
_QUEUE_FULL = "token_limit_exceeded"
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0
# Clocks differ: nothing of a file was made so long before it.
_CLOCKS_S = 86_400
_NAMED = 3

_Result = TypeVar("_Result")


class HostedBatches:
    """Has request files answered by the endpoint's Batch API.

    Each step is noted before the next, and what the endpoint may have done unnoted is looked for
    before it is done again: no file is uploaded, and no batch made of it, twice.

    Raises:
        InputError: there is no key.
    """

    def __init__(
        self, config: EngineConfig, folder: Path, submissions: Submissions
    ) -> None:
        self._config = config
        self._folder = folder
        self._submissions = submissions
        self._endpoint = BatchEndpoint(config)

    async def exchange(self, names: Iterable[str]) -> None:
        """Return when what came of these request files lies beside them.

        Raises:
            EngineError: the endpoint refuses, a batch failed there, or the endpoint is out of
                reach for longer than `max_outage`. What was fetched and noted stays.
            ToolbankError: the folder can't be written to.
        """
        try:
            with tqdm(desc="batches", unit="request", leave=False, disable=None) as bar:
                await self._exchange(sorted(names), bar)
        except asyncio.CancelledError:
            self._say(
                "batches that were submitted go on; the next run fetches their replies"
            )
            raise
        finally:
            await self._endpoint.close()

    async def _exchange(self, todo: list[str], bar: tqdm[Any]) -> None:
        running: list[str] = []
        held: list[str] = []
        refused: list[str] = []
        known: dict[str, Batch] = {}
        wait = _FIRST_WAIT
        while todo or running:
            for name in todo:
                await self._patiently(self._submit, name)
            running, todo = running + todo, []
            has_room = False
            for name in list(running):
                batch = await self._patiently(self._retrieve, name)
                known[name] = batch
                if batch.status in _ENDED:
                    running.remove(name)
                    has_room = has_room or batch.status != "failed"
                    await self._end(name, batch, held, refused)
            _show(bar, known)
            if held and has_room:
                todo, held, wait = held, [], _FIRST_WAIT
            elif running:
                await asyncio.sleep(wait)
                wait = min(_LONGEST_WAIT, wait * 1.5)
        refused += [
            f"{name}: the account may have no more tokens waiting. Run again later, or write "
            f"smaller files: --set {self._config.section}.options.max_requests=1000"
            for name in held
        ]
        if refused:
            raise EngineError("\n".join(refused), reason="batch-failed", fatal=True)

    async def _submit(self, name: str) -> None:
        """See to it that a batch is made of a request file."""
        path = self._folder / name
        sha256 = sha256_file(path)
        entry = self._submissions.get(name)
        if entry is None or entry.sha256 != sha256:
            entry = Submission(sha256=sha256, mark=secrets.token_hex(8))
            self._submissions.note(name, entry)
        if entry.batch:
            return
        since = path.stat().st_mtime - _CLOCKS_S
        batch = await self._endpoint.find_batch(entry.mark, since)
        if not batch:
            if not entry.file:
                uploaded_as = f"{entry.mark}-{name}"
                file = await self._endpoint.find_file(uploaded_as, since)
                file = file or await self._endpoint.upload(path, uploaded_as)
                entry = entry.model_copy(update={"file": file})
                self._submissions.note(name, entry)
            batch = await self._create(name, entry)
        self._submissions.note(name, entry.model_copy(update={"batch": batch}))
        self._say(f"{name}: submitted as {batch}")

    async def _create(self, name: str, entry: Submission) -> str:
        try:
            return await self._endpoint.create(entry.file, entry.mark, name)
        except EngineError as error:
            if not error.retryable:
                # The file may be gone there; the next run looks for it, or uploads it again.
                self._submissions.note(name, entry.model_copy(update={"file": ""}))
            raise

    async def _retrieve(self, name: str) -> Batch:
        batch = self._submissions.batch(name)
        try:
            return await self._endpoint.retrieve(batch)
        except EngineError as error:
            raise self._lost(error, name, f"the batch {batch}") from error

    async def _end(
        self, name: str, batch: Batch, held: list[str], refused: list[str]
    ) -> None:
        """Fetch what a batch left, or see why it failed as a whole."""
        entry = self._submissions.get(name)
        if entry is None:
            raise ValueError(f"{name} was not submitted")
        if batch.status == "failed":
            # The file may be good, and the account's limit another one by the next time.
            self._submissions.note(name, entry.model_copy(update={"batch": ""}))
            errors = (batch.errors.data if batch.errors else None) or []
            if any(error.code == _QUEUE_FULL for error in errors):
                held.append(name)
            else:
                refused.append(self._describe_failure(name, batch))
            return
        stem = name.removesuffix(".jsonl")
        for kind, file in (
            ("errors", batch.error_file_id),
            ("output", batch.output_file_id),
        ):
            if file:
                target = self._folder / f"{stem}.{kind}.jsonl"
                await self._patiently(self._fetch, name, file, target)
        self._submissions.note(name, entry.model_copy(update={"status": batch.status}))
        if batch.status != "completed":
            self._say(f"{name}: {batch.id} is {batch.status}; what it did is fetched")

    async def _fetch(self, name: str, file: str, target: Path) -> None:
        try:
            await self._endpoint.download(file, target)
        except EngineError as error:
            raise self._lost(error, name, f"the file {file}") from error

    async def _patiently(
        self, call: Callable[..., Awaitable[_Result]], *arguments: Any
    ) -> _Result:
        """Call again where that can help, for as long as an endpoint may be down."""
        wait, failed_at = _FIRST_WAIT, 0.0
        while True:
            try:
                return await call(*arguments)
            except EngineError as error:
                failed_at = failed_at or time.monotonic()
                left = failed_at + self._config.max_outage - time.monotonic()
                if not error.retryable or left < wait:
                    raise
                self._say(f"{error} Trying again for up to {left:,.0f} s.")
            await asyncio.sleep(wait)
            wait = min(_LONGEST_WAIT, wait * 2)

    def _lost(self, error: EngineError, name: str, what: str) -> EngineError:
        """The error, and what to do where the endpoint doesn't know what it gave us."""
        if error.reason != NOT_FOUND:
            return error
        return EngineError(
            f"{self._config.base_url}: {what} of {name} is not known there. Is this the account "
            f"that it was submitted with? To submit the file again, delete its entry in "
            f"{self._submissions.path}.",
            reason="no-such-batch",
            fatal=True,
        )

    def _describe_failure(self, name: str, batch: Batch) -> str:
        errors = (batch.errors.data if batch.errors else None) or []
        said = "; ".join(
            f"line {error.line}: {error.message}" if error.line else str(error.message)
            for error in errors[:_NAMED]
        )
        return (
            f"{self._folder / name}: the batch {batch.id} failed ({said or 'no reason given'}). "
            "The next run submits the file again; to have its requests written anew, delete it."
        )

    def _say(self, text: str) -> None:
        tell(f"{self._folder}: {text}")


def _show(bar: tqdm[Any], batches: Mapping[str, Batch]) -> None:
    counts = [batch.request_counts for batch in batches.values()]
    bar.total = sum(count.total for count in counts if count)
    bar.n = sum(count.completed + count.failed for count in counts if count)
    states = Counter(batch.status for batch in batches.values())
    bar.set_postfix_str(", ".join(f"{states[name]} {name}" for name in sorted(states)))
