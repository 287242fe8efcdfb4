"""Fill the journal through files of requests and replies, a round at a time."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from pydantic import TypeAdapter, ValidationError

from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, count_tokens
from toolbank.llm.config import SearchModelConfig, find_engine_secrets, hide_in_reply
from toolbank.llm.engines.batch.folder import (
    URL,
    BatchRefusal,
    Folder,
    RequestFile,
    read_options,
    read_round,
    write_requests,
)
from toolbank.llm.engines.batch.hosted import HostedBatches, Submissions
from toolbank.llm.engines.openai.completion import make_body
from toolbank.system.errors import InputError
from toolbank.system.files import write_error
from toolbank.system.numbers import count
from toolbank.system.secrets import hide
from toolbank.system.terminal import command, print_above_bars

if TYPE_CHECKING:
    from toolbank.llm.accounts import CallCounts
    from toolbank.llm.config import EngineConfig
    from toolbank.llm.journal import Journal


def describe_round(
    config: EngineConfig,
    folder: Path,
    written: Sequence[RequestFile],
    waiting: Mapping[str, str],
) -> str:
    """Which files wait for replies, how to get these, and how to go on.

    `written` are new; `waiting` are of earlier rounds, by name, with their batch where the
    hosted API has one.
    """
    lines = [*_list_files(config, folder, written, waiting), ""]
    return "\n".join([*lines, *_list_steps(config, folder, written)])


def _list_files(
    config: EngineConfig,
    folder: Path,
    written: Sequence[RequestFile],
    waiting: Mapping[str, str],
) -> Iterator[str]:
    if written:
        tokens = sum(file.tokens for file in written)
        requests = sum(file.requests for file in written)
        yield (
            f"Written: {count(requests, 'request')} for {config.model}, about {tokens:,.0f} "
            "tokens of prompts:"
        )
        for file in written:
            yield f"  {file.path}  {count(file.requests, 'request')}, {_size(file.size)}"
    if waiting:
        yield "These were written before, and no reply to them lies there yet:"
        for name in sorted(waiting):
            batch = f"  submitted as {waiting[name]}" if waiting[name] else ""
            yield f"  {folder / name}{batch}"


def _list_steps(
    config: EngineConfig, folder: Path, written: Sequence[RequestFile]
) -> Iterator[str]:
    base = config.base_url.rstrip("/")
    # What searches ask lies beside their journal, and not in a run's folder.
    of_search = isinstance(config, SearchModelConfig)
    run = "the same command" if of_search else command("run", folder.parent)
    bearer = {"Authorization": f"Bearer ${config.api_key_env}"}
    headers = {name: f"${variable}" for name, variable in config.headers.items()}
    sent = {**(bearer if config.api_key_env else {}), **headers}
    key = " ".join(f'-H "{name}: {value}"' for name, value in sent.items())
    query = f"?{urlencode(config.url_query)}" if config.url_query else ""
    file = shlex.quote(str(written[0].path if written else folder / "FILE.jsonl"))
    yield "1. Make a batch of each file, in the provider's dashboard or so:"
    yield (
        f"     curl {shlex.quote(f'{base}/files{query}')} {key} -F purpose=batch -F file=@{file}"
    )
    yield (
        f"     curl {shlex.quote(f'{base}/batches{query}')} {key} -H 'Content-Type: application/json' "
        f'-d \'{{"input_file_id": "ID OF THE FILE", "endpoint": "{URL}", '
        '"completion_window": "24h"}\''
    )
    yield (
        f"2. When it is done, put its output file, and its file of errors where there is one, "
        f"into {folder}, under any name that ends in .jsonl. Once read, it gets its round "
        "before that name."
    )
    yield f"3. Go on: {run}"
    yield (
        "All three steps in one, where the endpoint has the Batch API: "
        f"{run} --set {config.section}.options.submit=true"
    )


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"


_HAS_ROUND = re.compile(r"round-\d+\b")


def name_rounds(folder: Path) -> None:
    """Put the round before the name of each file of replies that was read.

    `seen.json` has the bytes of the files that lay there when a round was written, by its
    number: these are of an earlier one.

    Raises:
        InputError: `seen.json` can't be read.
        ToolbankError: the folder can't be written to.
    """
    path = folder / "seen.json"
    if not path.exists():
        return
    try:
        seen = TypeAdapter(dict[int, dict[str, int]]).validate_json(path.read_bytes())
        for number, sizes in sorted(seen.items()):
            for name, size in sizes.items():
                file = folder / name
                is_named = _HAS_ROUND.match(name) or Path(name).name != name
                if not is_named and file.is_file() and file.stat().st_size == size:
                    file.rename(folder / f"round-{number - 1:03d}.{name}")
        path.unlink()
    except ValidationError as error:
        raise InputError(
            f"{path}: not as it was written here. Delete it; replies to requests that were "
            "asked twice may then be looked for once more."
        ) from error
    except OSError as error:
        raise write_error(path, error) from error


# So many replies are put into the journal at once.
_AT_ONCE = 256
_SHOWN = 300
# Its newer models know no other name for the limit of an answer's tokens.
_WANTS_COMPLETION_LIMIT = "api.openai.com"


class BatchFiller:
    """Collects what the journal lacks into request files, and puts what came into the journal.

    A request that a file holds is not written again before that file is answered; one that was
    left out or failed goes into a later round, `retries` times. `failures` are the requests that
    are given up for good, by their keys; `counts` is added to as replies come.

    Raises:
        InputError: an option can't be used, a file can't be read, or the files are to be
            submitted and there is no key.
    """

    def __init__(
        self,
        config: EngineConfig,
        folder: Path,
        journal: Journal,
        identity: str,
        counts: CallCounts,
    ) -> None:
        self.failures: dict[str, EngineError] = {}
        self._config = config
        # By hand no key is needed; one that is set may stand in what an endpoint echoed.
        self._secrets = find_engine_secrets(config)
        self._options = read_options(config)
        self._path = folder
        self._journal = journal
        self._identity = identity
        self._counts = counts
        self._submissions = Submissions(folder)
        self._hosted = (
            HostedBatches(config, folder, self._submissions)
            if self._options.submit
            else None
        )
        self._said: set[str] = set()
        name_rounds(folder)
        self._folder = Folder(folder, config.model)

    def holds(self, key: str) -> bool:
        """Whether a file holds a request, so that its reply costs nothing that is not spent."""
        return key in self._folder.asked

    async def exchange(self, missing: Sequence[ChatRequest]) -> str:
        """Take in what came of these requests; where nothing did, ask, and submit if set.

        Gives "" where some of them are now in the journal or in `failures`; else what the user
        has to do, and nothing more can be done before that.

        Raises:
            EngineError: the endpoint refuses or is out of reach. What came of it is kept.
            InputError: a file can't be read.
            ToolbankError: the folder or the journal can't be written to.
        """
        lacking = {request.key(self._identity): request for request in missing}
        while lacking and not await self._take_in(lacking):
            waiting, files = await self._write_round(lacking)
            if self._hosted is None:
                return files
            try:
                await self._hosted.exchange(waiting)
            except BaseException:
                # Of several batches, some may have been fetched.
                await self._take_in(lacking)
                raise
        return ""

    async def _take_in(self, lacking: dict[str, ChatRequest]) -> bool:
        """Put replies into the journal, and what is given up into `failures`; gives if any came.

        What came is taken out of `lacking`.
        """
        self._folder = Folder(self._path, self._config.model)
        before = len(lacking)
        await _all(
            self._put(key, lacking.pop(key), reply)
            for key, reply in self._folder.read()
            if key in lacking
        )
        self._folder.name_read()
        for note in self._folder.notes:
            self._say_once(note)
        await _all(
            self._give_up(key, lacking.pop(key), self._folder.asked[key])
            for key in list(lacking)
            if self._is_given_up(key)
        )
        return len(lacking) < before

    async def _put(self, key: str, request: ChatRequest, reply: ChatReply) -> None:
        reply = hide_in_reply(reply, self._secrets)
        reply = count_tokens(reply, request.prompt, self._config.max_tokens)
        await self._journal.put(key, self._identity, request, reply)
        self._counts.add(reply)

    def _is_given_up(self, key: str) -> bool:
        files = self._folder.asked.get(key, [])
        if not files or not self._is_answered(files[-1]):
            return False
        return self._refusal(key).is_final or len(files) > self._config.retries

    async def _give_up(
        self, key: str, request: ChatRequest, files: Sequence[str]
    ) -> None:
        refusal = self._refusal(key)
        times = "once" if len(files) == 1 else f"{len(files)} times"
        error = EngineError(
            f"{self._path / files[-1]}: a request was asked {times} and not answered "
            f"({refusal.reason}).{self._quote(refusal)} To have it asked again, delete the "
            "files that hold it.",
            reason=refusal.reason,
            prompt_tokens=refusal.prompt_tokens,
            completion_tokens=refusal.completion_tokens,
        )
        self.failures[key] = error
        self._counts.failures[refusal.reason] += 1
        # Each command finds it in the same files.
        if not any(
            failure.key == key and failure.message == str(error)
            for failure in self._journal.failures(request.attempt)
        ):
            put = self._journal.put_failure
            await put(key, self._identity, request, error, final=True)

    async def _write_round(
        self, lacking: Mapping[str, ChatRequest]
    ) -> tuple[set[str], str]:
        """The request files that are waited for, and what the user has to do with them."""
        waiting: set[str] = set()
        asked: list[tuple[str, ChatRequest]] = []
        again: Counter[str] = Counter()
        failures = []
        for key, request in lacking.items():
            files = self._folder.asked.get(key, [])
            if files and not self._is_answered(files[-1]):
                waiting.add(files[-1])
                continue
            asked.append((key, request))
            if files:
                refusal = self._refusal(key)
                again[refusal.reason] += 1
                error = EngineError(
                    f"{self._path / files[-1]}: not answered.{self._quote(refusal)}",
                    reason=refusal.reason,
                    prompt_tokens=refusal.prompt_tokens,
                    completion_tokens=refusal.completion_tokens,
                )
                put = self._journal.put_failure
                failures.append(put(key, self._identity, request, error))
        await _all(failures)
        written = write_requests(
            self._path,
            1 + max([self._folder.rounds, *map(read_round, self._submissions)]),
            ((key, request, self._body(request)) for key, request in asked),
            self._options.max_requests,
        )
        if again:
            self._counts.retries.update(again)
            self._say(_describe_again(again))
        batches = {name: self._submissions.get(name).batch for name in waiting}
        todo = describe_round(self._config, self._path, written, batches)
        return waiting | {file.path.name for file in written}, todo

    def _is_answered(self, name: str) -> bool:
        if self._submissions.get(name).status:
            return True
        being_fetched = self._hosted is not None and self._submissions.get(name).batch
        return name in self._folder.answered and not being_fetched

    def _refusal(self, key: str) -> BatchRefusal:
        return self._folder.refusals.get(key) or BatchRefusal("no-reply")

    def _body(self, request: ChatRequest) -> dict[str, object]:
        host = urlsplit(self._config.base_url).hostname
        wants = self._folder.wants_completion_limit or host == _WANTS_COMPLETION_LIMIT
        return make_body(
            self._config,
            request,
            answer_as=self._options.answer_as,
            limit="max_completion_tokens" if wants else "max_tokens",
        )

    def _quote(self, refusal: BatchRefusal) -> str:
        message = hide(refusal.message, self._secrets)[:_SHOWN]
        return f" It says: {message}" if message else ""

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _say(self, text: str) -> None:
        print_above_bars(f"{self._path}: {text}")


async def _all(writes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Carry out all, many at once, so that they share the journal's commits."""
    left = iter(writes)
    while some := list(islice(left, _AT_ONCE)):
        await asyncio.gather(*some)


def _describe_again(reasons: Counter[str]) -> str:
    listed = ", ".join(f"{reason} {n:,}" for reason, n in sorted(reasons.items()))
    requests = count(reasons.total(), "request is", "requests are")
    return f"{requests} asked again, for want of a reply: {listed}"
