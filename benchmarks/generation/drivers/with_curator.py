"""Bespoke Labs' curator: one LLM writes all rows, then another one polishes them; its cache in the folder.

python with_curator.py URL ROWS.jsonl IN_FLIGHT
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["TELEMETRY_ENABLED"] = "false"
os.environ["CURATOR_CACHE_DIR"] = str(Path.cwd() / "curator")

import litellm

# It counts tokens by a table from the network; litellm, which it needs, brings the same one along.
_TOKENIZERS = Path(litellm.__file__).parent / "litellm_core_utils" / "tokenizers"
os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(_TOKENIZERS))

from bespokelabs import curator  # noqa: E402 - it reads the environment

# Its limits a minute, out of the way.
_NO_LIMIT = 10**9


class Write(curator.LLM):  # type: ignore[misc]
    def prompt(self, row: dict[str, Any]) -> str:
        return str(row["write"])

    def parse(self, row: dict[str, Any], response: str) -> dict[str, Any]:
        return {**row, "draft": response}


class Polish(curator.LLM):  # type: ignore[misc]
    def prompt(self, row: dict[str, Any]) -> str:
        return str(row["polish_before"] + row["draft"] + row["polish_after"])

    def parse(self, row: dict[str, Any], response: str) -> dict[str, Any]:
        return {"draft": row["draft"], "query": response}


def main(url: str, rows_path: str, in_flight: int) -> None:
    rows = list(map(json.loads, Path(rows_path).read_text().splitlines()))
    settings = {
        "model_name": "mock",
        "backend": "openai",
        "backend_params": {
            "base_url": url,
            "api_key": "none",
            "max_concurrent_requests": in_flight,
            "max_requests_per_minute": _NO_LIMIT,
            "max_tokens_per_minute": _NO_LIMIT,
        },
    }
    drafts = Write(**settings)(rows).dataset
    polished = Polish(**settings)(drafts).dataset
    assert len(polished) == len(rows)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
