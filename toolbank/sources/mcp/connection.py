"""What is noted of a server while it is talked to, and what ends that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from toolbank.system.terminal import printable

MB = 1024 * 1024
MAX_MESSAGE = 32 * MB
MAX_BYTES = 256 * MB
_TAIL = 4096
_SHOWN = 500


class ServerError(Exception):
    """Why a server gave no tools, in words for people; `may_pass`: trying again may help."""

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


@dataclass
class Connection:
    """What a server has sent so far: so many `received` bytes, and the end of its `stderr`.

    `fault` is why no more was read. `invalid_line` is the first line that was no message. A
    process that `has_ended` closed its stdout before it was told to. Of HTTP, `status`,
    `content_type` and `location` are those of the last answer. `tools` are those of the last page.
    No message may have more than `largest` bytes.
    """

    received: int = 0
    fault: str = ""
    invalid_line: bytes = b""
    stderr: bytearray = field(default_factory=bytearray)
    has_ended: bool = False
    exit_code: int | None = None
    status: int = 0
    content_type: str = ""
    location: str = ""
    tools: object = None
    largest: int = MAX_MESSAGE

    def receive(self, size: int) -> None:
        """Count what has come.

        Raises:
            ServerError: it is too much.
        """
        self.received += size
        if self.received > MAX_BYTES:
            self.fault = f"it sends more than {MAX_BYTES // MB} MB"
            raise ServerError(self.fault)

    def refuse_size(self) -> ServerError:
        """The error that one message is too large."""
        self.fault = f"one message is over {self.largest // MB} MB"
        return ServerError(self.fault)

    def add_stderr(self, chunk: bytes) -> None:
        """Keep the end of what goes to stderr."""
        self.stderr += chunk
        del self.stderr[:-_TAIL]

    def stderr_tail(self, hide: Callable[[str], str]) -> str:
        """The last lines of stderr, as one line, without what `hide` takes out."""
        lines = hide(self.stderr.decode("utf-8", "replace")).splitlines()
        said = " / ".join(" ".join(line.split()) for line in lines if line.strip())
        return printable(said if len(said) <= _SHOWN else f"...{said[-_SHOWN:]}")
