"""The text of a page, whatever it is said to be written in."""

import re

from w3lib.encoding import html_to_unicode

# What any bytes can be read in, so that a page may be said to be in it by mistake.
_LOOSE = re.compile(r"utf-?8|us-ascii|ascii|iso-?8859-1|latin-?1|windows-1252|cp1252")
_CHARSET = re.compile(r"""charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_META_BYTES = 4096


def decode_html(body: bytes, content_type: str) -> str:
    """Read a page as a browser would: byte order mark, header, meta element, or else UTF-8.

    One that is UTF-8 to the last byte is read as that where it is said to be in Latin-1.
    Bytes that fit no character become U+FFFD, and unknown encodings count as none.
    """
    declared = _CHARSET.search(content_type) or _CHARSET.search(
        body[:_META_BYTES].decode("latin-1")
    )
    if declared is None or _LOOSE.fullmatch(declared[1].lower()):
        try:
            return body.decode("utf-8-sig")
        except UnicodeDecodeError:
            pass
    try:
        return html_to_unicode(content_type, body)[1]
    # Python has codecs that give no text, or fail on some of it.
    except (LookupError, ValueError):
        return body.decode("utf-8", errors="replace")
