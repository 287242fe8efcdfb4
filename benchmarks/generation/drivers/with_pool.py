"""The bare minimum: workers over `openai[aiohttp]` that carry a row each; nothing checked, nothing kept.

python with_pool.py URL ROWS.jsonl IN_FLIGHT
"""

import asyncio
import json
import sys
from pathlib import Path

import openai


async def main(url: str, rows_path: str, in_flight: int) -> None:
    rows = list(map(json.loads, Path(rows_path).read_text().splitlines()))
    limits = openai.DEFAULT_CONNECTION_LIMITS.__class__(
        max_connections=in_flight, max_keepalive_connections=in_flight
    )
    client = openai.AsyncOpenAI(
        base_url=url,
        api_key="none",
        max_retries=0,
        http_client=openai.DefaultAioHttpClient(limits=limits),
    )
    waiting = iter(rows)
    polished = []

    async def ask(prompt: str) -> str:
        completion = await client.chat.completions.create(
            model="mock", messages=[{"role": "user", "content": prompt}]
        )
        return completion.choices[0].message.content or ""

    async def carry() -> None:
        for row in waiting:
            draft = await ask(row["write"])
            prompt = row["polish_before"] + draft + row["polish_after"]
            polished.append(await ask(prompt))

    await asyncio.gather(*(carry() for _ in range(in_flight)))
    await client.close()
    assert len(polished) == len(rows)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
