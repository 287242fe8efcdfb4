"""Send a call to an HTTP API, at an address that was checked."""

from __future__ import annotations

import zlib

import aiohttp
from yarl import URL

from toolbank.search.calls import CallError, Target
from toolbank.search.calls.request import Prepared
from toolbank.system.http import (
    EncodingError,
    PrivateAddressError,
    make_connector,
    read_body,
)

NOT_PUBLIC = (
    "The address is not a public one. Who runs the server may allow it by "
    "`private: true`."
)
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
                connector=make_connector(guards=not target.private),
                timeout=aiohttp.ClientTimeout(total=CALL_TIME),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            ) as session,
            session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=headers,
                data=request.body,
                allow_redirects=False,
            ) as answer,
        ):
            content, is_whole = await read_body(answer, MOST_ANSWER)
            if not is_whole:
                raise CallError(f"The answer is larger than {MOST_ANSWER:,} bytes.")
            text = target.hide(content.decode("utf-8", "replace"))
            if answer.status >= 400:
                raise CallError(f"The API answered {answer.status}: {text[:2000]}")
            if 300 <= answer.status < 400:
                raise CallError(
                    f"The API answered {answer.status}, a redirect, which is not followed."
                )
            return text
    except TimeoutError as error:
        raise CallError(f"The API did not answer in {CALL_TIME:g} s.") from error
    except PrivateAddressError as error:
        raise CallError(NOT_PUBLIC) from error
    # ValueError: what aiohttp won't send, such as a header of two lines.
    except (aiohttp.ClientError, ValueError, EncodingError, zlib.error) as error:
        raise CallError(
            f"The API can't be reached ({type(error).__name__})."
        ) from error


def _fold(header: str) -> str:
    """A header's name as servers may read it, to some of which _ and - are one."""
    return header.lower().replace("_", "-")
