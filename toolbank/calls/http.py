"""Sending a call to an HTTP API."""

from __future__ import annotations

import aiohttp
from yarl import URL

from toolbank.calls.addresses import connect_to
from toolbank.calls.config import Target
from toolbank.calls.errors import CallError
from toolbank.calls.request import Prepared

CALL_TIME = 30.0
"""Seconds that a call may take."""
MOST_ANSWER = 1_000_000
"""Bytes of an answer."""


async def send(request: Prepared, target: Target) -> str:
    """The answer's text, without the target's credential; redirects are not followed.

    Raises:
        CallError: an argument would set the credential's header; the API can't be reached, does
            not answer in time, answers with an error or a redirect, or with more than may be.
    """
    headers = dict(request.headers)
    if target.credential:
        if _fold(target.credential.header) in map(_fold, headers):
            raise CallError(
                f"{target.credential.header}: a header that no argument sets."
            )
        headers |= target.credential.headers()
    try:
        async with (
            aiohttp.ClientSession(
                connector=connect_to(request.url, private=target.private),
                timeout=aiohttp.ClientTimeout(total=CALL_TIME),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            ) as session,
            session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=headers,
                data=request.body,
                allow_redirects=False,
            ) as answer,
        ):
            content = await answer.content.read(MOST_ANSWER + 1)
            while len(content) <= MOST_ANSWER and not answer.content.at_eof():
                content += await answer.content.read(MOST_ANSWER + 1 - len(content))
            text = content[:MOST_ANSWER].decode("utf-8", "replace")
            if len(content) > MOST_ANSWER:
                raise CallError(f"The answer is larger than {MOST_ANSWER:,} bytes.")
            text = target.hide(text)
            if answer.status >= 400:
                raise CallError(f"The API answered {answer.status}: {text[:2000]}")
            if 300 <= answer.status < 400:
                raise CallError(
                    f"The API answered {answer.status}, a redirect, which is not followed."
                )
            return text
    except TimeoutError as error:
        raise CallError(f"The API did not answer in {CALL_TIME:g} s.") from error
    # ValueError: what aiohttp won't send, such as a header of two lines.
    except (aiohttp.ClientError, ValueError) as error:
        raise CallError(
            f"The API can't be reached ({type(error).__name__})."
        ) from error


def _fold(header: str) -> str:
    """A header's name as servers may read it, to some of which _ and - are one."""
    return header.lower().replace("_", "-")
