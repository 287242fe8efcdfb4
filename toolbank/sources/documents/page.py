"""Web pages that came where a document was expected, and the documents that they link to."""

from __future__ import annotations

import html
import re
from urllib.parse import urljoin

_LINK = re.compile(
    r"""["'=]([^"'=\s<>()]*(?:openapi|swagger|api-docs)[^"'=\s<>()]*\.(?:json|ya?ml))\b""",
    re.IGNORECASE,
)
"""Where Swagger UI, Redoc and their like say what they show."""
_MOST = 1_000_000


def is_page(content: bytes) -> bool:
    """Whether what an address gives is HTML or XML."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")


def explain_page(content: str, where: str) -> str:
    """What to say of a page that came from `where`, a file or a URL, instead of a document."""
    from toolbank.sources.documents.fetch import shown

    found = _LINK.search(content, 0, _MOST)
    if found is None:
        advice = (
            "Give the address of the document itself: the page may link to it, as openapi.json, "
            "openapi.yaml or swagger.json. A site that Sphinx made is read with `type: sphinx`."
        )
    else:
        advice = (
            f"It links to {shown(urljoin(where, html.unescape(found[1])))}; give that."
        )
    return f"{where}: is a web page (HTML or XML), not JSON or YAML. {advice}"
