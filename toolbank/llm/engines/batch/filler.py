"""Fill the journal from files of requests and replies, a round at a time."""

from __future__ import annotations

import asyncio
import shlex
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from toolbank.llm.accounts import estimate_prompt, join_reasons
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, count_tokens
from toolbank.llm.config import SearchModelConfig, find_engine_secrets, hide_in_reply
from toolbank.llm.engines.batch.folder import (
    URL,
    Folder,
    SentRequest,
    read_options,
    read_round,
    write_requests,
)
from toolbank.llm.engines.batch.hosted import HostedBatches, Submissions
from toolbank.llm.engines.openai.completion import make_body
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
    written: Mapping[Path, int],
    tokens: float,
    waiting: Mapping[str, str],
) -> str:
    """Describe which files wait for replies, how to get them, and how to continue.

    `written` are new, with their numbers of requests and the `tokens` of all prompts; `waiting`
    are files of earlier rounds by name, each with its batch if it was submitted.
    """
    lines = []
    if written:
        requests = count(sum(written.values()), "request")
        lines.append(
            f"Written: {requests} for {config.model}, about {tokens:,.0f} prompt tokens:"
        )
        lines += [
            f"  {path}  {count(number, 'request')}" for path, number in written.items()
        ]
    if waiting:
        lines.append("Written before, and still without replies:")
    for name, batch in sorted(waiting.items()):
        lines.append(f"  {folder / name}{batch and f'  submitted as {batch}'}")
    base = config.base_url.rstrip("/")
    # The folder of a search's batches is not in a run folder.
    of_search = isinstance(config, SearchModelConfig)
    run = "the same command" if of_search else command("run", folder.parent)
    bearer = {"Authorization": f"Bearer ${config.api_key_env}"}
    headers = {name: f"${variable}" for name, variable in config.headers.items()}
    sent = {**(bearer if config.api_key_env else {}), **headers}
    key = " ".join(f'-H "{name}: {value}"' for name, value in sent.items())
    query = f"?{urlencode(config.url_query)}" if config.url_query else ""
    file = shlex.quote(str(next(iter(written), folder / "FILE.jsonl")))
    lines += [
        "",
        "1. Create a batch from each file, in the provider's dashboard or with:",
        f"     curl {shlex.quote(f'{base}/files{query}')} {key} -F purpose=batch -F file=@{file}",
        f"     curl {shlex.quote(f'{base}/batches{query}')} {key} "
        "-H 'Content-Type: application/json' "
        f'-d \'{{"input_file_id": "ID OF THE FILE", "endpoint": "{URL}", '
        '"completion_window": "24h"}\'',
        "2. When it is done, put its output file, and its error file if there is one, into "
        f"{folder}, under any name that ends in .jsonl.",
        f"3. Continue with: {run}",
        "If the endpoint has a Batch API, one command does all three steps: "
        f"{run} --set {config.section}.options.submit=true",
    ]
    return "\n".join(lines)


# So many replies are put into the journal at once.
_AT_ONCE = 256
_SHOWN = 300
# Its newer models know no other name of the token limit.
_WANTS_COMPLETION_LIMIT = "api.openai.com"


class BatchFiller:
    """Write the requests that the journal lacks to files, and put their replies into it.

    A request in a file is not written again before that file is answered. One without a reply
    goes into a later round, `retries` times. `failures` are the requests that are given up, by
    their keys; replies are added to `counts`.

    Raises:
        InputError: an option is invalid, a file can't be read, or `submit` is set and there is
            no key.
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
        # Without `submit` no key is needed, but an endpoint may have echoed one that is set.
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
        self._notes: set[str] = set()
        self._folder = Folder(folder, config.model)

    def holds(self, key: str) -> bool:
        """Whether a file has this request, so that its reply costs nothing more."""
        return key in self._folder.sent

    async def exchange(self, missing: Sequence[ChatRequest]) -> str:
        """Take the replies to these requests; if there are none, write and maybe submit them.

        Returns "" when some of them are in the journal or in `failures`, else what the user has
        to do next.

        Raises:
            EngineError: the endpoint refuses or is out of reach. Fetched replies are kept.
            InputError: a file can't be read.
            ToolbankError: the folder or the journal can't be written to.
        """
        lacking = {request.key(self._identity): request for request in missing}
        while lacking and not await self._take_in(lacking):
            waiting, instructions = await self._write_round(lacking)
            if self._hosted is None or not waiting:
                return instructions
            try:
                are_there = await self._hosted.exchange(
                    waiting, wait=self._options.wait
                )
            except BaseException:
                # Of several batches, some may have been fetched.
                await self._take_in(lacking)
                raise
            if not are_there:
                return self._describe_submitted(waiting)
        return ""

    def _describe_submitted(self, names: Iterable[str]) -> str:
        batches = ((name, self._submissions.get(name).batch) for name in sorted(names))
        lines = [f"  {self._path / name}  submitted as {b}" for name, b in batches]
        run = command("run", self._path.parent)
        return "\n".join(["Submitted:", *lines, "", f"To fetch the replies: {run}"])

    async def _take_in(self, lacking: dict[str, ChatRequest]) -> bool:
        """Move requests with a reply, or without hope, out of `lacking`; tell if there were any."""
        self._folder = Folder(self._path, self._config.model)
        before = len(lacking)
        await _run_all(
            self._put(key, lacking.pop(key), reply)
            for key, reply in self._folder.read()
            if key in lacking
        )
        for note in self._folder.notes:
            if note not in self._notes:
                self._notes.add(note)
                self._print(note)
        await _run_all(
            self._give_up(key, lacking.pop(key))
            for key in list(lacking)
            if self._is_hopeless(key)
        )
        return len(lacking) < before

    async def _put(self, key: str, request: ChatRequest, reply: ChatReply) -> None:
        reply = hide_in_reply(reply, self._secrets)
        reply = count_tokens(reply, request.prompt, self._config.max_tokens)
        await self._journal.put(key, self._identity, request, reply)
        self._counts.add(reply)

    def _is_hopeless(self, key: str) -> bool:
        sent = self._folder.sent.get(key)
        if not sent or not self._is_answered(sent[-1].file):
            return False
        is_final = not sent[-1].refusal.retryable
        return is_final or len(sent) > self._config.retries

    async def _give_up(self, key: str, request: ChatRequest) -> None:
        error = self._make_error(
            self._folder.sent[key],
            " To try the request again, delete the files that contain it.",
        )
        self.failures[key] = error
        self._counts.failures[error.reason] += 1
        # Every later command finds the same error in the same files.
        if not any(
            failure.key == key and failure.message == str(error)
            for failure in self._journal.failures(request.attempt)
        ):
            put = self._journal.put_failure
            await put(key, self._identity, request, error, final=True)

    async def _write_round(
        self, lacking: Mapping[str, ChatRequest]
    ) -> tuple[set[str], str]:
        """The request files that wait for replies, and what the user has to do with them."""
        waiting: set[str] = set()
        requests: list[tuple[str, ChatRequest, Mapping[str, Any]]] = []
        retries: Counter[str] = Counter()
        failures = []
        elsewhere = self._find_elsewhere()
        awaited: set[str] = set()
        for key, request in lacking.items():
            sent = self._folder.sent.get(key, [])
            if not sent and key in elsewhere:
                awaited.add(elsewhere[key])
                continue
            if sent and not self._is_answered(sent[-1].file):
                waiting.add(sent[-1].file)
                continue
            # Another try has its number, so that its reply is known from earlier ones.
            custom_id = f"{key}-{len(sent) + 1}" if sent else key
            requests.append((custom_id, request, self._body(request)))
            if sent:
                error = self._make_error(sent)
                retries[error.reason] += 1
                put = self._journal.put_failure
                failures.append(put(key, self._identity, request, error))
        await _run_all(failures)
        rounds = (self._folder.last_round, *map(read_round, self._submissions))
        written = write_requests(
            self._path, 1 + max(rounds), requests, self._options.max_requests
        )
        if retries:
            self._counts.retries.update(retries)
            again = count(retries.total(), "request")
            self._print(
                f"writing {again} without a reply again: {join_reasons(retries)}"
            )
        tokens = sum(estimate_prompt(request) for _, request, _ in requests)
        batches = {name: self._submissions.get(name).batch for name in waiting}
        batches |= dict.fromkeys(awaited, "")
        instructions = describe_round(
            self._config, self._path, written, tokens, batches
        )
        return waiting | {path.name for path in written}, instructions

    def _find_elsewhere(self) -> dict[str, str]:
        """Find the files of sibling runs that wait for replies, by the keys of their requests."""
        found: dict[str, str] = {}
        for path in (folder / self._path.name for folder in self._journal.siblings):
            folder = Folder(path, self._config.model)
            for _ in folder.read():
                # That finds the answered files.
                pass
            for key, sent in folder.sent.items():
                if sent[-1].file not in folder.answered:
                    found[key] = str((path / sent[-1].file).absolute())
        return found

    def _is_answered(self, name: str) -> bool:
        submission = self._submissions.get(name)
        is_fetching = self._hosted is not None and submission.batch
        return bool(submission.status) or (
            name in self._folder.answered and not is_fetching
        )

    def _make_error(self, sent: Sequence[SentRequest], remedy: str = "") -> EngineError:
        refusal = sent[-1].refusal
        message = hide(str(refusal), self._secrets)[:_SHOWN]
        return EngineError(
            f"{self._path / sent[-1].file}: no reply after {count(len(sent), 'try', 'tries')} "
            f"({refusal.reason}).{f' It says: {message}' if message else ''}{remedy}",
            reason=refusal.reason,
            prompt_tokens=refusal.prompt_tokens,
            completion_tokens=refusal.completion_tokens,
        )

    def _body(self, request: ChatRequest) -> dict[str, object]:
        host = urlsplit(self._config.base_url).hostname
        wants = self._folder.wants_completion_limit or host == _WANTS_COMPLETION_LIMIT
        return make_body(
            self._config,
            request,
            answer_as=self._options.answer_as,
            limit="max_completion_tokens" if wants else "max_tokens",
        )

    def _print(self, text: str) -> None:
        print_above_bars(f"{self._path}: {text}")


async def _run_all(writes: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all, many at once, so that they share the journal's commits."""
    left = iter(writes)
    while some := list(islice(left, _AT_ONCE)):
        await asyncio.gather(*some)
