"""Send a call to an HTTP API, at a checked address."""

from __future__ import annotations

import zlib

import aiohttp
from yarl import URL

from toolbank.search.calls import CallError, Target
from toolbank.search.calls.request import HttpRequest
from toolbank.system.http import (
    EncodingError,
    PrivateAddressError,
    make_connector,
    read_body,
)

NOT_PUBLIC = (
    "The address is not public. The operator of the server can allow it with "
    "`private: true`."
)
CALL_TIME = 30.0
"""The maximum duration of a call, in seconds."""
MOST_ANSWER = 1_000_000
"""The maximum size of a response, in bytes."""


async def send(request: HttpRequest, target: Target) -> str:
    """Send a request; gives the text of the response without the target's secrets.

    Raises:
        CallError: an argument sets the header of the credential; the API can't be reached, does
            not answer in time, or answers with an error, a redirect or too much.
    """
    headers = dict(request.headers)
    if target.credential:
        if _fold(target.credential.header) in map(_fold, headers):
            raise CallError(
                f"{target.credential.header}: an argument may not set this header."
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
    # ValueError: aiohttp refuses it, such as a header with a line feed.
    except (aiohttp.ClientError, ValueError, EncodingError, zlib.error) as error:
        raise CallError(
            f"The API cannot be reached ({type(error).__name__})."
        ) from error


def _fold(header: str) -> str:
    """Normalize the name of a header; some servers treat _ like -."""
    return header.lower().replace("_", "-")
