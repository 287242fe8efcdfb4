"""Store every reply on disk before it is used, and sum up what the calls cost."""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from toolbank.llm.chat import ChatReply, ChatRequest, EngineError
from toolbank.llm.journal import errors
from toolbank.llm.journal.layout import (
    DAMAGED,
    FAILURES,
    IDENTITIES,
    REPLIES,
    Failure,
    JournalEntry,
    StepUsage,
    decode,
    encode,
    make_row,
    read_row,
)
from toolbank.llm.journal.migration import check_journal, create, is_current, prepare
from toolbank.llm.journal.writer import Row, Writer
from toolbank.system.errors import ToolbankError
from toolbank.system.terminal import print_above_bars

_PERCENTILES = (50, 90, 99)


def read_usage(connection: sqlite3.Connection) -> tuple[StepUsage, ...]:
    """Sum up the calls of each step and identity, in the order of their first calls.

    Steps with nothing but failed tries come last.
    """
    sums = {
        (step, identity): numbers
        for step, identity, *numbers in connection.execute(
            "SELECT stage, identity, count(*), sum(prompt_tokens), sum(completion_tokens), "
            "sum(estimated), sum(latency > 0), max(latency) FROM replies "
            "GROUP BY stage, identity"
        )
    }
    failed: dict[tuple[str, int], dict[str, int]] = {}
    charged: Counter[tuple[str, int, int]] = Counter()
    for step, identity, reason, tries, *tokens in connection.execute(
        "SELECT stage, identity, reason, count(*), sum(prompt_tokens), sum(completion_tokens), "
        "sum(estimated) FROM failures GROUP BY stage, identity, reason ORDER BY reason"
    ):
        failed.setdefault((step, identity), {})[reason] = tries
        charged.update({(step, identity, n): one for n, one in enumerate(tokens)})
    names = dict(connection.execute("SELECT id, identity FROM identities"))
    used = []
    places = _places(connection)
    found = {*sums, *failed}
    for step, identity in sorted(found, key=lambda one: (places[one[0]], one[1])):
        replies, *tokens, measured, longest = sums.get(
            (step, identity), (0, 0, 0, 0, 0, 0.0)
        )
        prompt, completion, estimated = (
            one + charged[step, identity, n] for n, one in enumerate(tokens)
        )
        latency = {
            f"p{percent}": _percentile(connection, step, identity, percent, measured)
            for percent in _PERCENTILES
            if measured
        }
        if measured:
            latency["max"] = longest
        used.append(
            StepUsage(
                step,
                names[identity],
                replies,
                prompt,
                completion,
                failed.get((step, identity), {}),
                latency,
                estimated,
            )
        )
    return tuple(used)


def _places(connection: sqlite3.Connection) -> dict[str, int]:
    """Number the steps in the order of their first calls."""
    rows = [
        row
        for table in ("replies", "failures")
        for row in connection.execute(
            f"SELECT stage FROM {table} GROUP BY stage ORDER BY min(rowid)"  # noqa: S608
        )
    ]
    names = dict.fromkeys(name for (name,) in rows)
    return {name: place for place, name in enumerate(names)}


def _percentile(
    connection: sqlite3.Connection, step: str, identity: int, percent: int, of: int
) -> float:
    """Find the smallest latency that `percent` per cent do not exceed (nearest rank)."""
    rank = math.ceil(of * percent / 100)
    (latency,) = connection.execute(
        "SELECT latency FROM replies WHERE stage = ? AND identity = ? AND latency > 0 "
        "ORDER BY latency LIMIT 1 OFFSET ?",
        (step, identity, rank - 1),
    ).fetchone()
    return float(latency)


_LOCK_WAIT_S = 5.0
_ENTRIES = (
    "SELECT identities.identity, replies.* FROM replies "
    "JOIN identities ON identities.id = replies.identity"
)


_SIBLINGS: ContextVar[tuple[Path, ...]] = ContextVar("siblings", default=())


@contextmanager
def borrowing(folders: Iterable[Path]) -> Iterator[None]:
    """Let journals that are opened in the block copy replies from those of these run folders."""
    token = _SIBLINGS.set(tuple(folders))
    try:
        yield
    finally:
        _SIBLINGS.reset(token)


class Journal:
    """The journal of one run folder. Use it as a context manager.

    A file of an earlier layout is converted when it is opened. With `read_only` the file must
    exist and does not change, and a run may use it at the same time. A file that is no journal
    is not touched.

    Raises:
        InputError: the file is no journal, or of layout 1.
        ToolbankError: the file is damaged, of a later layout, or can't be written.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._read_only = read_only
        # The file to read: the journal, or a converted copy.
        self._file = path
        self._open = ExitStack()
        self._reader: sqlite3.Connection | None = None
        self._writer: Writer | None = None
        # The identities that are on disk, and the keys of damaged replies.
        self._identities: set[str] = set()
        self._damaged: set[str] = set()
        self.siblings = [folder for folder in _SIBLINGS.get() if folder != path.parent]
        self._lenders: list[tuple[Path, sqlite3.Connection]] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack, errors.explained(self.path):
            check_journal(self.path)
            if self._read_only:
                self._open_to_read(stack)
            else:
                self._open_to_write(stack)
            self._open = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader = None
        self._open.close()

    def __len__(self) -> int:
        """The number of replies."""
        return int(self._read("SELECT count(*) FROM replies")[0][0])

    def get(self, key: str) -> ChatReply | None:
        """Get the reply of an earlier call; None if there is none or it is damaged."""
        rows = self._read("SELECT * FROM replies WHERE key = ?", key)
        return self._read_reply(key, rows[0]) if rows else None

    async def borrow(self, key: str) -> ChatReply | None:
        """Copy the reply of an earlier call from a sibling, and return it; None if none has it.

        Raises:
            ToolbankError: as of `put`, or a sibling's journal is damaged.
        """
        for path, lender in self._lenders:
            with errors.explained(path):
                rows = lender.execute(f"{_ENTRIES} WHERE key = ?", (key,)).fetchall()
            for identity, *row in rows:
                if (reply := read_row(row)) is not None:
                    await self._write([(REPLIES, (identity, *row[1:]))], identity)
                    return reply
        return None

    async def put(
        self, key: str, identity: str, request: ChatRequest, reply: ChatReply
    ) -> None:
        """Write a reply, and return when it is on disk.

        Raises:
            ToolbankError: the disk is full, another process locks the file, it was damaged
                meanwhile, or the journal is closed.
        """
        messages = encode(request.messages)
        values = make_row(key, request.attempt, request.step, reply, messages)
        rows: list[Row] = [(REPLIES, (identity, *values))]
        if key in self._damaged:
            rows.append((DAMAGED, (key,)))
        await self._write(rows, identity)
        self._damaged.discard(key)

    async def put_failure(
        self,
        key: str,
        identity: str,
        request: ChatRequest,
        error: EngineError,
        *,
        final: bool = False,
    ) -> None:
        """Write the failure of a try, and return when it is on disk; `final`: no more tries.

        Raises:
            ToolbankError: as of `put`.
        """
        attempt, step = request.attempt, request.step
        tokens = (error.prompt_tokens, error.completion_tokens, error.estimated)
        outcome = (error.reason, str(error), final)
        values = (key, attempt, step, identity, *outcome, *tokens)
        await self._write([(FAILURES, values)], identity)

    async def flush(self) -> None:
        """Return when all replies are on disk, or their writing has failed."""
        if self._writer is not None:
            with suppress(ToolbankError):
                await self._writer.write()

    def entries(self, attempt: int | None = None) -> Iterator[JournalEntry]:
        """Read all exchanges, or those of one attempt, sorted by attempt and step.

        Raises:
            ToolbankError: the file is damaged.
        """
        rows = self._read_anew(
            _ENTRIES,
            {} if attempt is None else {"attempt": (attempt,)},
            "attempt, stage DESC, key",
        )
        for identity, *row in rows:
            _, _, key, number, step, *_, messages, _ = row
            reply = self._read_reply(key, row)
            if reply is not None:
                with errors.explained(self.path):
                    prompt = decode(zlib.decompress(messages))
                yield JournalEntry(key, number, step, identity, prompt, reply)

    def attempts(self, steps: Collection[str]) -> Iterator[int]:
        """List the attempts that have a reply of one of these steps, in order.

        Raises:
            ToolbankError: the file is damaged.
        """
        rows = self._read_anew(
            "SELECT DISTINCT attempt FROM replies", {"stage": steps}, "attempt"
        )
        for (number,) in rows:
            yield number

    def failures(self, attempt: int | None = None) -> Iterator[Failure]:
        """Read all failed tries, or those of one attempt, sorted by attempt and time.

        Raises:
            ToolbankError: the file is damaged.
        """
        rows = self._read_anew(
            "SELECT key, attempt, stage, reason, message, final, identities.identity "
            "FROM failures JOIN identities ON identities.id = failures.identity",
            {} if attempt is None else {"attempt": (attempt,)},
            "attempt, failures.rowid",
        )
        for key, number, step, reason, message, final, identity in rows:
            yield Failure(key, number, step, reason, message, bool(final), identity)

    def usage(self) -> tuple[StepUsage, ...]:
        """Sum up the calls of each step and identity, in the order of their first calls."""
        with errors.explained(self.path), closing(_connect(self._file)) as connection:
            return read_usage(connection)

    def _open_to_write(self, stack: ExitStack) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                create(self.path)
        except OSError as error:
            raise errors.unusable(self.path, error) from error
        connection = _connect_to_write(self.path)
        with ExitStack() as if_it_fails:
            if_it_fails.callback(connection.close)
            prepare(connection, self.path)
            self._identities = {
                identity
                for (identity,) in connection.execute("SELECT identity FROM identities")
            }
            if_it_fails.pop_all()
        # Its thread closes the connection.
        self._writer = Writer(self.path, connection)
        stack.callback(self._writer.close)
        self._reader = stack.enter_context(closing(_connect(self.path)))
        self._lenders = [
            (path, stack.enter_context(closing(_connect(path))))
            for path in (folder / self.path.name for folder in self.siblings)
            if path.is_file()
        ]

    def _open_to_read(self, stack: ExitStack) -> None:
        reader = stack.enter_context(closing(_connect(self.path)))
        if not is_current(reader):
            # An earlier layout: read a converted copy.
            folder = stack.enter_context(TemporaryDirectory())
            self._file = Path(folder, self.path.name)
            made = sqlite3.connect(self._file, isolation_level=None)
            copy = stack.enter_context(closing(made))
            reader.backup(copy)
            prepare(copy, self.path)
            reader = copy
        self._reader = reader

    def _read_reply(self, key: str, row: Sequence[Any]) -> ChatReply | None:
        reply = read_row(row)
        if reply is None and key not in self._damaged:
            self._damaged.add(key)
            print_above_bars(errors.damaged_reply(self.path, key))
        return reply

    async def _write(self, rows: Sequence[Row], identity: str) -> None:
        # Rows are queued before the first `await`, so that a cancelled wait loses none.
        if self._writer is None:
            raise errors.closed(self.path)
        if identity in self._identities:
            await self._writer.write(*rows)
        else:
            await self._writer.write((IDENTITIES, (identity,)), *rows)
            self._identities.add(identity)

    def _read(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        if self._reader is None:
            raise errors.closed(self.path)
        with errors.explained(self.path):
            return self._reader.execute(sql, values).fetchall()

    def _read_anew(
        self, sql: str, only: dict[str, Collection[object]], order: str
    ) -> Iterator[tuple[Any, ...]]:
        """Read rows one by one with a connection of their own; `only` some values of columns."""
        where = "".join(
            f" WHERE {column} IN ({', '.join('?' * len(values))})"
            for column, values in only.items()
        )
        values = [value for some in only.values() for value in some]
        with errors.explained(self.path), closing(_connect(self._file)) as connection:
            yield from connection.execute(f"{sql}{where} ORDER BY {order}", values)


def copy_journal(source: Path, target: Path) -> None:
    """Copy a journal to a new file; a run may use the source at the same time.

    Raises:
        InputError: the source is no journal.
        ToolbankError: it is damaged, or the copy can't be written.
    """
    with errors.explained(source):
        check_journal(source)
        with closing(_connect(source)) as connection:
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                create(target, connection)
            except OSError as error:
                raise errors.unusable(target, error) from error


def _connect(path: Path) -> sqlite3.Connection:
    """Connect to an existing file for reading."""
    # With mode=ro the files of the write-ahead mode would stay behind.
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=_LOCK_WAIT_S,
        # In a notebook, which has a loop, calls are made in another thread.
        check_same_thread=False,
        isolation_level=None,
    )
    connection.execute("PRAGMA query_only = ON")
    # A damaged text can still be read, and its checksum then differs.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _connect_to_write(path: Path) -> sqlite3.Connection:
    # Created where the journal is opened, and used in the writer's thread alone.
    connection = sqlite3.connect(
        path, timeout=_LOCK_WAIT_S, check_same_thread=False, isolation_level=None
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection
