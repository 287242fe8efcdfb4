"""The folder of the files that went out and came back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from filecmp import cmp
from pathlib import Path

from toolbank.chat.chat import ChatReply
from toolbank.llm.engines.batch.lines import LIMIT, Refusal, read_line
from toolbank.system.errors import ToolbankError
from toolbank.system.files import reading, unwritable
from toolbank.system.numbers import count

_REQUESTS = re.compile(r"round-(\d+)-[a-z]+-\d+\.jsonl")
_ROUND = re.compile(r"round-(\d+)\b")
_KEY = re.compile(rb'\{"custom_id": "([0-9a-f]+)", "method": "POST", ')
_BOM = b"\xef\xbb\xbf"
_NAMED = 3


class Folder:
    """What the files of a folder say. Keys are those of the journal.

    A request file is known by its name, replies come under any. A file of replies gets the number
    of the last round before its name once it is read, and is of that round from then on.
    `asked` are the request files that hold a key, by their rounds; `rounds` the last one's number.
    What replies say is known once all of `read` has been taken: `answered` are the request files
    that replies or errors came for, `refusals` why a key has no reply, `notes` what is amiss.

    Raises:
        InputError: a file can't be read.
    """

    def __init__(self, path: Path, model: str) -> None:
        self.path = path
        self.asked: dict[str, list[str]] = {}
        self.answered: set[str] = set()
        self.refusals: dict[str, Refusal] = {}
        self.notes: list[str] = []
        self._model = model
        self._replies: list[Path] = []
        self._new: list[Path] = []
        self._seen: set[str] = set()
        self._doubled = self._foreign = 0
        self._broken: list[str] = []
        files = sorted(path.glob("[!.]*.jsonl"))
        # By their rounds, and last those that have none yet.
        for file in sorted(files, key=lambda file: read_round(file.name) or 10**9):
            is_reply = file.is_file() and not self._read_requests(file)
            if is_reply and not any(_is_copy(file, other) for other in self._replies):
                self._replies.append(file)
        self.rounds = max((read_round(file.name) for file in files), default=0)

    @property
    def wants_completion_limit(self) -> bool:
        """Whether the model refused the usual name for the limit of an answer's tokens."""
        return any(LIMIT in refusal.message for refusal in self.refusals.values())

    def read(self) -> Iterator[tuple[str, ChatReply]]:
        """The keys and replies that came; of several to one request, the first.

        Raises:
            InputError: a file can't be read.
        """
        for file in self._replies:
            yield from self._read_replies(file)
        if self._doubled:
            self.notes.append(
                f"{count(self._doubled, 'reply', 'replies')} came more than once; the first of each "
                "counts"
            )
        if self._foreign:
            self.notes.append(
                f"{count(self._foreign, 'reply is to a request', 'replies are to requests')} that "
                "no file here holds"
            )
        if self._broken:
            more = len(self._broken) - _NAMED
            self.notes.append(
                f"{count(len(self._broken), 'line')} can't be read: "
                f"{', '.join(self._broken[:_NAMED])}{f' and {more:,} more' if more > 0 else ''}"
            )

    def name_read(self) -> None:
        """Give files of replies the round that they were read in, so that no later one has them.

        Raises:
            ToolbankError: the folder can't be written to.
        """
        for file in self._new:
            name = f"round-{self.rounds:03d}.{file.name}"
            while (self.path / name).exists():
                name = name.replace(".", ".again.", 1)
            try:
                file.rename(self.path / name)
            except OSError as error:
                raise ToolbankError(unwritable(file, error)) from error
        self._new.clear()

    def _read_requests(self, file: Path) -> bool:
        """Take the keys of a file of requests; False where there is anything else in it."""
        if not _REQUESTS.fullmatch(file.name):
            return False
        is_all = True
        for _, content in _lines(file):
            if match := _KEY.match(content):
                key = match[1].decode()
            elif (line := read_line(content, "")) and line.reply is None:
                key = line.key
            else:
                is_all = False
                continue
            files = self.asked.setdefault(key, [])
            if file.name not in files:
                files.append(file.name)
        return is_all

    def _read_replies(self, file: Path) -> Iterator[tuple[str, ChatReply]]:
        number = read_round(file.name) or self.rounds
        answered: set[str] = set()
        is_whole = True
        for place, content in _lines(file):
            line = read_line(content, self._model)
            if line is None:
                is_whole = content.endswith(b"\n")
                if is_whole:
                    self._broken.append(f"{file.name} line {place}")
                continue
            if line.reply is None:
                self._note_misplaced(file)
                continue
            of = self.asked.get(line.key, [])
            self._foreign += not of
            answered.update([name for name in of if read_round(name) <= number][-1:])
            if isinstance(line.reply, Refusal):
                self.refusals[line.key] = line.reply
            elif line.key in self._seen:
                self._doubled += 1
            else:
                self._seen.add(line.key)
                yield line.key, line.reply
        if not is_whole:
            self.notes.append(
                f"{file.name} ends in the middle of a line, and more of it is waited for: copy "
                "it again, or delete that line if this is all there is"
            )
            return
        self.answered |= answered
        if answered and not read_round(file.name):
            self._new.append(file)
        if not file.stat().st_size:
            self.notes.append(
                f"{file.name}: empty, and its replies are waited for; where none came, delete "
                "the request file, and its requests are asked again"
            )

    def _note_misplaced(self, file: Path) -> None:
        if _REQUESTS.fullmatch(file.name):
            return
        note = (
            f"{file.name}: requests, and not under a name that was given to them here; "
            "left out"
        )
        if note not in self.notes:
            self.notes.append(note)


def read_round(name: str) -> int:
    """The round that a file is of, by its name; 0 where it does not say."""
    match = _ROUND.match(name)
    return int(match[1]) if match else 0


def _is_copy(file: Path, other: Path) -> bool:
    """Whether a file that was read and has its round lies there under its own name once more."""
    return other.name.endswith(f".{file.name}") and cmp(file, other, shallow=False)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that hold anything, and their numbers."""
    with reading(file), file.open("rb") as lines:
        for number, content in enumerate(lines, start=1):
            if number == 1:
                content = content.removeprefix(_BOM)
            if content.strip():
                yield number, content
