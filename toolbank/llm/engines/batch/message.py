"""What the user is told at the end of a round."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from toolbank.llm.config import SearchModelConfig
from toolbank.llm.engines.batch.writing import URL, RequestFile
from toolbank.system.numbers import count
from toolbank.system.terminal import command

if TYPE_CHECKING:
    from toolbank.llm.config import EngineConfig


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
