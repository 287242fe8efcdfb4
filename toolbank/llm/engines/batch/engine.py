"""An engine whose calls go through files, a round at a time."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolbank.chat.chat import ChatReply, ChatRequest, EngineError, NotYet
from toolbank.llm.engines.batch.hosted import HostedBatches
from toolbank.llm.engines.batch.message import describe_round
from toolbank.llm.engines.batch.options import read_options
from toolbank.llm.engines.batch.replies import Trouble, read_folder, read_reply
from toolbank.llm.engines.batch.requests import RequestWriter, remove_unfinished
from toolbank.llm.engines.batch.seen import write_seen
from toolbank.llm.engines.batch.submissions import Submissions
from toolbank.llm.engines.openai.completion import (
    check_settings,
    make_body,
    make_identity,
)
from toolbank.llm.engines.openai.errors import hide_key
from toolbank.system.terminal import tell

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig

# Its newer models know no other name for the bound of an answer's tokens.
_WANTS_COMPLETION_LIMIT = "api.openai.com"


class BatchEngine:
    """Takes requests, writes them to files of the Batch API, and answers from what came back.

    `folder` holds the files and is all that it knows: replies are found by what is in them. A
    request that a file holds is not written again before that file is answered; one that was
    left out or failed goes into a later round, `retries` times. Its identity is that of the
    `openai` engine, so that replies of one serve the other.

    Raises:
        InputError: no model is named, an option or parameter can't be used, a file can't be
            read, or the files are to be submitted and there is no key.
    """

    name = "batch"
    offers = None

    def __init__(self, config: EngineConfig, folder: Path) -> None:
        check_settings(config)
        self.model = config.model
        self.identity = make_identity(config)
        self._config = config
        self._options = read_options(config)
        self._folder = folder
        self._submissions = Submissions(folder)
        self._hosted = (
            HostedBatches(config, folder, self._submissions)
            if self._options.submit
            else None
        )
        self._start_round()

    async def answer(self, request: ChatRequest) -> ChatReply:
        """The reply that lies in the folder.

        Raises:
            NotYet: there is none yet; the request is in a file, or goes into the next one.
            EngineError: it was answered with an error, or not at all, too often.
            InputError: a file was changed meanwhile.
        """
        key = request.key(self.identity)
        place = self._record.replies.get(key)
        if place is not None:
            reply = read_reply(place, self.model)
            return replace(
                reply, text=self._hide(reply.text), model=self._hide(reply.model)
            )
        files = self._record.asked.get(key, [])
        if self._is_waited_for(files):
            self._waited_for.add(files[-1])
        elif key not in self._taken:
            if files:
                trouble = self._trouble(key)
                if self._is_given_up(trouble, files):
                    raise self._describe_trouble(trouble, files)
                self._asked_again[trouble.reason] += 1
            self._writer.add(request.stage, key, self._body(request))
            self._taken.add(key)
        raise NotYet

    def is_new(self, key: str) -> bool:
        """Whether a request of this key would go into the next file."""
        if key in self._record.replies or key in self._taken:
            return False
        files = self._record.asked.get(key, [])
        if self._is_waited_for(files):
            return False
        return not (files and self._is_given_up(self._trouble(key), files))

    def asked(self) -> Collection[str]:
        """The keys of the requests that are in files of earlier rounds."""
        return self._record.asked.keys()

    async def end_round(self) -> str:
        """Write what was taken; then submit it and wait, or tell the user what to do.

        Raises:
            EngineError: the endpoint refuses or is out of reach.
            ToolbankError: the folder can't be written to.
        """
        if self._taken:
            write_seen(self._folder, self._number, self._record.reply_files)
        written = self._writer.finish()
        if self._asked_again:
            self._say(_describe_again(self._asked_again))
        if self._hosted is None:
            waiting = {name: self._submissions.batch(name) for name in self._waited_for}
            return describe_round(self._config, self._folder, written, waiting)
        try:
            await self._hosted.exchange(
                {*self._waited_for, *(file.path.name for file in written)}
            )
        except asyncio.CancelledError:
            # Of several batches, some may have been fetched.
            self._start_round()
            raise
        self._start_round()
        return ""

    async def close(self) -> None:
        """Let go of requests that were taken and not written; they will be asked for again."""
        self._writer.discard()

    def _start_round(self) -> None:
        remove_unfinished(self._folder)
        self._record = read_folder(self._folder, self.model)
        for note in self._record.notes:
            self._say(note)
        self._number = self._record.last_round + 1
        self._writer = RequestWriter(
            self._folder, self._number, self._options.max_requests
        )
        self._taken: set[str] = set()
        self._waited_for: set[str] = set()
        self._asked_again: Counter[str] = Counter()

    def _is_waited_for(self, files: list[str]) -> bool:
        return bool(files) and not self._is_answered(files[-1])

    def _is_answered(self, name: str) -> bool:
        if self._submissions.has_ended(name):
            return True
        being_fetched = self._hosted is not None and self._submissions.batch(name)
        return name in self._record.answered and not being_fetched

    def _body(self, request: ChatRequest) -> dict[str, object]:
        host = urlsplit(self._config.base_url).hostname
        wants = self._record.wants_completion_limit or host == _WANTS_COMPLETION_LIMIT
        return make_body(
            self._config,
            request,
            answer_as=self._options.answer_as,
            limit="max_completion_tokens" if wants else "max_tokens",
        )

    def _trouble(self, key: str) -> Trouble:
        return self._record.troubles.get(key) or Trouble("no-reply", "")

    def _is_given_up(self, trouble: Trouble, files: list[str]) -> bool:
        return trouble.final or len(files) > self._config.retries

    def _describe_trouble(self, trouble: Trouble, files: list[str]) -> EngineError:
        said = f" It says: {self._hide(trouble.message)}" if trouble.message else ""
        times = "once" if len(files) == 1 else f"{len(files)} times"
        return EngineError(
            f"{self._folder / files[-1]}: a request was asked {times} and not answered "
            f"({trouble.reason}).{said} To have it asked again, delete the files that hold it.",
            reason=trouble.reason,
        )

    def _hide(self, text: str) -> str:
        """By hand no key is needed; one that is set may stand in what an endpoint echoed."""
        return hide_key(text, os.environ.get(self._config.api_key_env, "").strip())

    def _say(self, text: str) -> None:
        tell(f"{self._folder}: {text}")


def _describe_again(reasons: Counter[str]) -> str:
    listed = ", ".join(f"{reason} {n:,}" for reason, n in sorted(reasons.items()))
    count = reasons.total()
    requests = "1 request is" if count == 1 else f"{count:,} requests are"
    return f"{requests} asked again, for want of a reply: {listed}"
