"""What came back of an HTTP request."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What came back of an HTTP request. Not `whole`: the body is longer, and this its beginning.

    `headers` finds names in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True

    @property
    def text(self) -> str:
        """The body as text, whatever its bytes."""
        return self.body.decode("utf-8", "replace")
