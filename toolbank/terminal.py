"""Text for a terminal."""

import re
import sys

# Control signs (but line feeds and tabs), and those that turn the direction of writing.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def printable(text: str) -> str:
    """The text with a visible mark for every sign that could steer the terminal.

    Names and words of pages, packages and replies reach messages; they are data.
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def tell(message: str) -> None:
    """Tell the user of something while work goes on, above the progress bars."""
    from tqdm import tqdm

    tqdm.write(f"toolbank: {printable(message)}", file=sys.stderr)
