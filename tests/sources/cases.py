"""Files of tests/corpus that hold several cases, each below a line with its title.

That line is `<!-- TITLE -->` in HTML, and `## TITLE` in any other text.
"""

import re

_TITLE = re.compile(r"^(?:<!--|##) (.+?)(?: -->)?\n", re.M)


def read_cases(file):
    """The texts in a file by their titles."""
    _, *parts = _TITLE.split(file.read_text("utf-8"))
    titles, texts = parts[::2], [text.strip("\n") for text in parts[1::2]]
    assert len({*titles}) == len(titles), f"{file}: a title is there twice"
    return dict(zip(titles, texts, strict=True))
