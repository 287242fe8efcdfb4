"""Find the kind of source that reads a location."""

from urllib.parse import urlsplit

from pydantic import ValidationError

from toolbank.config.explain import first_problem
from toolbank.sources import SOURCES
from toolbank.sources.document_parser import explain_page, is_page
from toolbank.sources.kind import Location, SourceConfig
from toolbank.system.errors import InputError
from toolbank.system.terminal import one_line

_SHOWN = 200


def recognise(text: str) -> SourceConfig:
    """Return the configuration of the first kind that recognises a location.

    Nothing is started or imported. A URL may be downloaded.

    Raises:
        InputError: no kind recognises it, or the one that does refuses it.
        ToolbankError: a URL can't be read now.
    """
    location = Location(text)
    if location.is_url:
        _check_address(text)
    for name in SOURCES.names:
        kind = SOURCES.load(name)
        try:
            found: SourceConfig | None = kind.recognise(location)
        except ValidationError as error:
            raise InputError(f"{_name(location)}: {first_problem(error)}.") from error
        except InputError as error:
            if not location.is_url:
                raise
            raise InputError(f"{error} Give one of these: {list_choices()}.") from error
        if found is not None:
            return found
    if location.is_url and is_page(location.content):
        page = location.content.decode("utf-8", "replace")
        raise InputError(explain_page(page, _name(location)))
    if location.is_url:
        said = "there is nothing at this address that tools can be read from"
    elif location.path is not None:
        said = "tools cannot be read from it"
    else:
        said = "there is no such file, folder or package"
    raise InputError(f"{_name(location)}: {said}. Give one of these: {list_choices()}.")


def list_choices() -> str:
    """List what the kinds accept, in one line.

    Raises:
        InputError: a kind of another package can't be used.
    """
    kinds = map(SOURCES.load, SOURCES.names)
    return "; ".join(kind.takes for kind in kinds if kind.takes)


def _check_address(text: str) -> None:
    """Refuse a URL without a valid host or port, without repeating it: it may hold a password."""
    try:
        parts = urlsplit(text)
        is_one = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise InputError(
            "The address has no valid host or port. Give one such as "
            "https://api.example.com/openapi.json."
        )


def _name(location: Location) -> str:
    from toolbank.sources.document_fetch import shown

    return one_line(shown(location.text) if location.is_url else location.text, _SHOWN)
