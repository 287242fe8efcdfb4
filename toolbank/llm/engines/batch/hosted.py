"""Submit files to a hosted Batch API, wait, and fetch the replies."""

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
    """A request file at the endpoint: the uploaded file, its batch, and the final status.

    `mark` is in the batch's metadata, to find it again. `begun` is "create" while it is unknown
    whether the endpoint has created the batch. `status` is set once the replies are fetched.
    """

    model_config = ConfigDict(frozen=True)

    sha256: str = ""
    mark: str = ""
    file: str = ""
    batch: str = ""
    begun: str = ""
    status: str = ""


class Submissions:
    """The file `submitted.json` of a folder, with an entry for each request file.

    Raises:
        InputError: the file can't be read.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "submitted.json"
        self._entries: dict[str, Submission] = {}
        if not self.path.exists():
            return
        entries = TypeAdapter(dict[str, Submission])
        try:
            self._entries = entries.validate_json(read_text(self.path))
        except ValidationError as error:
            raise InputError(
                f"{self.path}: damaged. Repair it: without it, batches that are not fetched yet "
                "would be submitted, and paid, again."
            ) from error

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the request files."""
        return iter(self._entries)

    def get(self, name: str) -> Submission:
        """Get the entry of a request file."""
        return self._entries.get(name) or Submission()

    def change(self, name: str, **values: str) -> None:
        """Change values in the entry of a request file; they are on disk when this returns.

        Raises:
            ToolbankError: the folder can't be written to.
        """
        self._entries[name] = self.get(name).model_copy(update=values)
        rows = {key: value.model_dump() for key, value in self._entries.items()}
        write_json(self.path, rows)


_ENDED = frozenset({"completed", "expired", "cancelled", "failed"})
_CREATE = "create"
# Failures after which the endpoint may have done what was requested.
_LOST = frozenset({"connection", "http-500", "http-502", "http-504", "not-batch-api"})
# The account can't queue more tokens.
_QUEUE_FULL = "token_limit_exceeded"
_FIRST_WAIT = 1.0
_LONGEST_WAIT = 60.0
# Clocks differ, but no batch is older than its file by more than this.
_CLOCKS_S = 86_400
_NAMED = 3

_Result = TypeVar("_Result")


class HostedBatches:
    """Gets replies to request files from the endpoint's Batch API.

    Each step is written down when it begins and ends. If the outcome of a step is unknown, the
    endpoint's list shows it before the step is repeated; if there is no list, the user has to
    look. So no file is submitted twice.

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

    async def exchange(self, names: Iterable[str], *, wait: bool = True) -> bool:
        """Submit these request files, and return True when their replies are in the folder.

        Without `wait`, return False if a batch has not ended yet.

        Raises:
            EngineError: the endpoint refuses, a batch failed there, or the endpoint is out of
                reach for longer than `max_outage`. Fetched replies stay.
            ToolbankError: the folder can't be written to.
        """
        try:
            with tqdm(desc="batches", unit="request", leave=False, disable=None) as bar:
                return await self._exchange(sorted(names), bar, wait=wait)
        except asyncio.CancelledError:
            self._say(
                "submitted batches continue at the endpoint; the next run fetches their replies"
            )
            raise
        finally:
            await self._endpoint.close()

    async def _exchange(self, todo: list[str], bar: tqdm[Any], *, wait: bool) -> bool:
        running: list[str] = []
        known: dict[str, Batch] = {}
        held: list[str] = []
        refused: list[str] = []
        pause = _FIRST_WAIT
        while todo or running:
            for name in todo:
                await self._patiently(self._submit, name)
            running, todo = running + todo, []
            has_room = False
            for name in list(running):
                key = self._submissions.get(name).batch
                batch = await self._get(
                    name, f"batch {key}", self._endpoint.retrieve, key
                )
                known[name] = batch
                if batch.status not in _ENDED:
                    continue
                running.remove(name)
                if batch.status != "failed":
                    await self._fetch(name, batch)
                    has_room = True
                    continue
                # The file may be good, and the account's limit may change.
                self._submissions.change(name, batch="")
                if any(problem.code == _QUEUE_FULL for problem in batch.problems):
                    held.append(name)
                else:
                    refused.append(self._describe_failure(name, batch))
            _show(bar, known.values())
            if held and has_room:
                todo, held, pause = held, [], _FIRST_WAIT
            elif running and not wait:
                break
            elif running:
                await asyncio.sleep(pause)
                pause = min(_LONGEST_WAIT, pause * 1.5)
        refused += [
            f"{name}: the account can't queue more tokens. Run again later, or write smaller "
            f"files: --set {self._config.section}.options.max_requests=1000"
            for name in held
        ]
        if refused:
            raise EngineError("\n".join(refused), reason="batch-failed", fatal=True)
        return not running

    async def _submit(self, name: str) -> None:
        """Create one batch from a request file, unless it exists."""
        path = self._folder / name
        sha256 = sha256_file(path)
        entry = self._submissions.get(name)
        if entry.sha256 != sha256:
            entry = Submission(sha256=sha256, mark=secrets.token_hex(8))
            self._submissions.change(name, **entry.model_dump())
        if entry.batch:
            return
        since = path.stat().st_mtime - _CLOCKS_S
        batch = await self._endpoint.find_batch(entry.mark, since)
        if batch is None and entry.begun == _CREATE:
            raise self._unknown(name, entry)
        if not batch:
            # Uploading a file twice costs nothing.
            file = entry.file or await self._endpoint.upload(path, name)
            # The entry says "create" until the outcome is known.
            self._submissions.change(name, file=file, begun=_CREATE)
            batch = await self._create(name, entry.mark, file)
        self._submissions.change(name, batch=batch, begun="")
        self._say(f"{name}: submitted as {batch}")

    async def _create(self, name: str, mark: str, file: str) -> str:
        try:
            return await self._endpoint.create(file, mark, name)
        except EngineError as error:
            if error.reason not in _LOST:
                # The uploaded file may be gone, so the next run uploads it again.
                kept = file if error.retryable else ""
                self._submissions.change(name, file=kept, begun="")
            raise

    def _unknown(self, name: str, entry: Submission) -> EngineError:
        return EngineError(
            f"{self._config.base_url}: the answer was lost when a batch was created from {name}, "
            "and this endpoint can't list batches. Look there for a batch of the file "
            f"{entry.file} with {entry.mark} in its metadata. If it exists, put its id at "
            f'"batch" of {name} in {self._submissions.path}; if not, put "" at "begun". Then run '
            "the same command again.",
            reason="unknown-outcome",
            fatal=True,
        )

    async def _fetch(self, name: str, batch: Batch) -> None:
        files = {"errors": batch.error_file_id, "output": batch.output_file_id}
        for kind, file in files.items():
            if file:
                target = self._folder / f"{name.removesuffix('.jsonl')}.{kind}.jsonl"
                download = self._endpoint.download
                await self._get(name, f"file {file}", download, file, target)
        self._submissions.change(name, status=batch.status)
        if batch.status != "completed":
            self._say(f"{name}: {batch.id} is {batch.status}; its replies are fetched")

    async def _get(
        self,
        name: str,
        what: str,
        call: Callable[..., Awaitable[_Result]],
        *arguments: Any,
    ) -> _Result:
        """Get `what` the endpoint has of a request file."""
        try:
            return await self._patiently(call, *arguments)
        except EngineError as error:
            if error.reason != NOT_FOUND:
                raise
            raise EngineError(
                f"{self._config.base_url}: there is no {what} of {name}. Was it submitted with "
                "another account? To submit the file again, delete its entry in "
                f"{self._submissions.path}.",
                reason="no-such-batch",
                fatal=True,
            ) from error

    async def _patiently(
        self, call: Callable[..., Awaitable[_Result]], *arguments: Any
    ) -> _Result:
        """Call, and retry for as long as an endpoint may be down."""
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

    def _describe_failure(self, name: str, batch: Batch) -> str:
        reasons = "; ".join(
            f"line {problem.line}: {problem.message}"
            if problem.line
            else str(problem.message)
            for problem in batch.problems[:_NAMED]
        )
        reasons = self._endpoint.credentials.hide(reasons) or "no reason given"
        return (
            f"{self._folder / name}: the batch {batch.id} failed ({reasons}). The next run submits "
            "the file again; to write its requests again, delete it."
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
