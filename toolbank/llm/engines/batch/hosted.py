"""Exchange files with a hosted Batch API: submit, wait, fetch."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from tqdm import tqdm

from toolbank.llm.chat import EngineError
from toolbank.llm.engines.batch.endpoint import NOT_FOUND, Batch, BatchEndpoint
from toolbank.system.errors import InputError
from toolbank.system.files import read_text, sha256_file, write_json
from toolbank.system.terminal import print_above_bars, printable

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig


class Submission(BaseModel):
    """A request file at the endpoint: the uploaded file, its batch, and how that ended.

    `mark` is on the batch, so that it is found again; `begun` is "create" while nobody knows
    whether the endpoint has made it; `status` is how it ended, once its replies are fetched.
    """

    model_config = ConfigDict(frozen=True)

    sha256: str = ""
    mark: str = ""
    file: str = ""
    batch: str = ""
    begun: str = ""
    status: str = ""


class Submissions:
    """The file `submitted.json` of a folder, by the names of the request files.

    Raises:
        InputError: the file can't be read.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "submitted.json"
        self._entries = self._read()

    def __iter__(self) -> Iterator[str]:
        """The names of the request files that something is known of."""
        return iter(self._entries)

    def get(self, name: str) -> Submission:
        """What is known of a request file."""
        return self._entries.get(name) or Submission()

    def note(self, name: str, entry: Submission) -> None:
        """Keep what is known of a request file; it is on disk when this returns.

        Raises:
            ToolbankError: the folder can't be written to.
        """
        self._entries[name] = entry
        rows = {key: value.model_dump() for key, value in self._entries.items()}
        write_json(self.path, rows)

    def change(self, name: str, **values: str) -> None:
        """Note what is new of a request file.

        Raises:
            ToolbankError: the folder can't be written to.
        """
        self.note(name, self.get(name).model_copy(update=values))

    def _read(self) -> dict[str, Submission]:
        if not self.path.exists():
            return {}
        try:
            return TypeAdapter(dict[str, Submission]).validate_json(
                read_text(self.path)
            )
        except ValidationError as error:
            raise InputError(
                f"{self.path}: not as it was written here. Mend it; without it, what was "
                "submitted and not fetched would be submitted once more."
            ) from error


_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
_CREATE = "create"
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
    look. So no batch is made of a file twice.

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
        known: dict[str, Batch] = {}
        held: list[str] = []
        refused: list[str] = []
        wait = _FIRST_WAIT
        while todo or running:
            for name in todo:
                await self._patiently(self._submit, name)
            running, todo = running + todo, []
            has_room = False
            for name in list(running):
                batch = known[name] = await self._patiently(self._retrieve, name)
                if batch.status not in _ENDED:
                    continue
                running.remove(name)
                if batch.status != "failed":
                    await self._fetch(name, batch)
                    has_room = True
                elif self._is_held(name, batch):
                    held.append(name)
                else:
                    refused.append(self._describe_failure(name, batch))
            _show(bar, known.values())
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
        """See to it that one batch is made of a request file."""
        path = self._folder / name
        sha256 = sha256_file(path)
        entry = self._submissions.get(name)
        if entry.sha256 != sha256:
            entry = Submission(sha256=sha256, mark=secrets.token_hex(8))
            self._submissions.note(name, entry)
        if entry.batch:
            return
        since = path.stat().st_mtime - _CLOCKS_S
        batch = await self._endpoint.find_batch(entry.mark, since)
        if batch is None and entry.begun == _CREATE:
            raise self._unknown(name, entry)
        if not batch:
            # To upload a file twice costs nothing.
            file = entry.file or await self._endpoint.upload(path, name)
            # What is not known to have failed may have been done.
            self._submissions.change(name, file=file, begun=_CREATE)
            batch = await self._create(name, entry.mark, file)
        self._submissions.change(name, batch=batch, begun="")
        self._say(f"{name}: submitted as {batch}")

    async def _create(self, name: str, mark: str, file: str) -> str:
        try:
            return await self._endpoint.create(file, mark, name)
        except EngineError as error:
            if error.reason not in _LOST:
                # The file may be gone there; the next run uploads it again.
                kept = file if error.retryable else ""
                self._submissions.change(name, file=kept, begun="")
            raise

    def _unknown(self, name: str, entry: Submission) -> EngineError:
        """The error where only the user can see what the endpoint has done."""
        return EngineError(
            f"{self._config.base_url}: nobody knows whether a batch was made of {name}, or not: "
            "the answer was lost, and this endpoint has no list to look in. Look there for a "
            f"batch of the file {entry.file}, with {entry.mark} in its metadata. If it is there, "
            f'put its id at "batch" of {name} in {self._submissions.path}; if not, put "" at '
            '"begun". Then run the same command again.',
            reason="unknown-outcome",
            fatal=True,
        )

    async def _retrieve(self, name: str) -> Batch:
        batch = self._submissions.get(name).batch
        try:
            return await self._endpoint.retrieve(batch)
        except EngineError as error:
            raise self._lost(error, name, f"the batch {batch}") from error

    def _is_held(self, name: str, batch: Batch) -> bool:
        """Forget a batch that failed as a whole; whether only for want of room."""
        # The file may be good, and the account's limit another one by the next time.
        self._submissions.change(name, batch="")
        return any(problem.code == _QUEUE_FULL for problem in batch.problems)

    async def _fetch(self, name: str, batch: Batch) -> None:
        """Fetch what a batch left."""
        files = {"errors": batch.error_file_id, "output": batch.output_file_id}
        for kind, file in files.items():
            if file:
                target = self._folder / f"{name.removesuffix('.jsonl')}.{kind}.jsonl"
                await self._patiently(self._download, name, file, target)
        self._submissions.change(name, status=batch.status)
        if batch.status != "completed":
            self._say(f"{name}: {batch.id} is {batch.status}; what it did is fetched")

    async def _download(self, name: str, file: str, target: Path) -> None:
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
            f"line {problem.line}: {problem.message}"
            if problem.line
            else str(problem.message)
            for problem in batch.problems[:_NAMED]
        )
        return (
            f"{self._folder / name}: the batch {batch.id} failed "
            f"({self._endpoint.hide(said) or 'no reason given'}). The next run submits the "
            "file again; to have its requests written anew, delete it."
        )

    def _say(self, text: str) -> None:
        print_above_bars(f"{self._folder}: {text}")


def _show(bar: tqdm[Any], batches: Collection[Batch]) -> None:
    counts = [batch.request_counts for batch in batches if batch.request_counts]
    bar.total = sum(count.total or 0 for count in counts)
    bar.n = sum((count.completed or 0) + (count.failed or 0) for count in counts)
    states = Counter(batch.status for batch in batches)
    listed = ", ".join(f"{states[name]} {name}" for name in sorted(states))
    bar.set_postfix_str(printable(listed))
