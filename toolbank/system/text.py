"""Halves of surrogate pairs, which JSON can escape and no file can hold."""


def replace_surrogates(text: str) -> str:
    """The text with a question mark for each character that is half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode("utf-8")
