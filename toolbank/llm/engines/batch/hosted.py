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

from toolbank.chat.chat import EngineError
from toolbank.llm.engines.batch.answers import Batch
from toolbank.llm.engines.batch.endpoint import NOT_FOUND, BatchEndpoint
from toolbank.llm.engines.batch.submissions import Submission, Submissions
from toolbank.system.files import sha256_file
from toolbank.system.terminal import printable, tell

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
_GOING_ON = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
# No batch takes longer.
_WINDOW_S = 86_400
_UPLOAD, _CREATE = "upload", "create"
# The endpoint may have done what it was asked before it failed.
_LOST = frozenset({"connection", "http-500", "http-502", "http-504", "not-batch-api"})
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

    Each step is noted as it begins and as it ends, and what the endpoint may have done unheard is
    looked for in its lists before it is done again; where it has no list, the user is asked to
    look. So no file is uploaded, and no batch made of it, twice.

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
        begun = time.monotonic()
        wait = _FIRST_WAIT
        while todo or running:
            for name in todo:
                await self._patiently(self._submit, name)
            running, todo = running + todo, []
            has_room = False
            for name in list(running):
                batch = await self._patiently(self._retrieve, name)
                known[name] = batch
                is_odd = batch.status not in _ENDED | _GOING_ON
                if is_odd and time.monotonic() > begun + _WINDOW_S:
                    running.remove(name)
                    refused.append(self._describe_failure(name, batch))
                elif batch.status in _ENDED:
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
                file = await self._upload(name, entry, since)
                entry = entry.model_copy(update={"file": file, "begun": ""})
                self._submissions.note(name, entry)
            if batch is None and entry.begun == _CREATE:
                sign = f"of the file {entry.file}, with {entry.mark} in its metadata"
                raise self._unknown(name, "a batch was made", f"batch {sign}", "batch")
            batch = await self._create(name, entry)
        entry = entry.model_copy(update={"batch": batch, "begun": ""})
        self._submissions.note(name, entry)
        self._say(f"{name}: submitted as {batch}")

    async def _upload(self, name: str, entry: Submission, since: float) -> str:
        uploaded_as = f"{entry.mark}-{name}"
        file = await self._endpoint.find_file(uploaded_as, since)
        if file:
            return file
        if file is None and entry.begun == _UPLOAD:
            raise self._unknown(name, "it was uploaded", f"file {uploaded_as}", "file")
        begun = entry.model_copy(update={"begun": _UPLOAD})
        self._submissions.note(name, begun)
        try:
            return await self._endpoint.upload(self._folder / name, uploaded_as)
        except EngineError as error:
            if not _may_be_done(error):
                self._submissions.note(name, entry)
            raise

    async def _create(self, name: str, entry: Submission) -> str:
        begun = entry.model_copy(update={"begun": _CREATE})
        self._submissions.note(name, begun)
        try:
            return await self._endpoint.create(entry.file, entry.mark, name)
        except EngineError as error:
            if not _may_be_done(error):
                # The file may be gone there; the next run looks for it, or uploads it again.
                file = entry.file if error.retryable else ""
                kept = entry.model_copy(update={"file": file, "begun": ""})
                self._submissions.note(name, kept)
            raise

    def _unknown(self, name: str, step: str, what: str, field: str) -> EngineError:
        """The error where only the user can see what the endpoint has done."""
        return EngineError(
            f"{self._config.base_url}: nobody knows whether {step} of {name}, or not: the answer "
            f"was lost, and this endpoint has no list to look in. Look there for a {what}. If it "
            f'is there, put its id at "{field}" of {name} in {self._submissions.path}; if not, '
            'put "" at "begun". Then run the same command again.',
            reason="unknown-outcome",
            fatal=True,
        )

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
            if any(problem.code == _QUEUE_FULL for problem in batch.problems):
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
        said = "; ".join(
            f"line {error.line}: {error.message}" if error.line else str(error.message)
            for error in batch.problems[:_NAMED]
        )
        said = self._endpoint.hide_key(said)
        if batch.status != "failed":
            return (
                f"{self._folder / name}: the batch {batch.id} is {batch.status!r} for more than a "
                "day, and nobody knows what that means. Look at it in the provider's dashboard."
            )
        return (
            f"{self._folder / name}: the batch {batch.id} failed ({said or 'no reason given'}). "
            "The next run submits the file again; to have its requests written anew, delete it."
        )

    def _say(self, text: str) -> None:
        tell(f"{self._folder}: {text}")


def _show(bar: tqdm[Any], batches: Mapping[str, Batch]) -> None:
    counts = [batch.request_counts for batch in batches.values()]
    bar.total = sum(count.total or 0 for count in counts if count)
    done = [(count.completed or 0) + (count.failed or 0) for count in counts if count]
    bar.n = sum(done)
    states = Counter(batch.status for batch in batches.values())
    told = ", ".join(f"{states[name]} {name}" for name in sorted(states))
    bar.set_postfix_str(printable(told))


def _may_be_done(error: EngineError) -> bool:
    return error.reason in _LOST
