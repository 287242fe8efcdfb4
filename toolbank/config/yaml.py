"""Reading YAML of a user's, with the line that every key stands on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from toolbank.system.errors import InputError

KeyPath = tuple[str | int, ...]

MOST_BYTES = 1_000_000
"""The longest text that is read: more, by hand, nobody writes."""
_DEEPEST = 300  # levels


def parse_mapping(text: str, where: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Read YAML text that holds a mapping; `where` names it in errors.

    Gives the data, and the line (from 1) of every key and item by its path.

    Raises:
        InputError: it is not YAML, a key is given twice, it is too long, or it is not a mapping.
    """
    data, root = _read(text, where)
    if not isinstance(data, dict):
        raise InputError(
            f"{where}: should be a mapping of keys, a line each such as `name: weather`."
        )
    lines: dict[KeyPath, int] = {}
    _note_lines(root, (), lines, set())
    return data, lines


def parse_value(text: str, where: str) -> Any:
    """Read YAML text that holds anything.

    Raises:
        InputError: it is not YAML, a key is given twice, or it is too long.
    """
    return _read(text, where)[0]


def _read(text: str, where: str) -> tuple[Any, yaml.Node | None]:
    """The data, and the node that it was made of; None of no text."""
    if len(text) > MOST_BYTES:
        raise too_long(where)
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            return (None if root is None else loader.construct_document(root)), root
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        # Where the text ends too early, the mark is behind its last line.
        last = len(text.splitlines())
        line = f", line {min(mark.line + 1, last)}" if mark else ""
        raise InputError(f"{where}{line}: not valid YAML: {error.problem}.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: not valid YAML: {error}.") from error
    except RecursionError as error:
        raise InputError(f"{where}: not valid YAML: nested too deep.") from error
    # Of values that are not what their tags say.
    except (LookupError, AttributeError, TypeError) as error:
        raise InputError(f"{where}: not valid YAML: a tag on what it isn't.") from error


def dump_mapping(data: Mapping[str, Any]) -> str:
    """YAML of data, its keys in their order, that reads back to the same."""
    # libyaml would escape all beyond the basic plane, such as emoji.
    return str(
        yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=88)
    )


def too_long(where: str) -> InputError:
    """The error that a text is longer than any that is read."""
    return InputError(
        f"{where}: over {MOST_BYTES / 1e6:.0f} MB, and what is written by hand is far shorter. "
        "Is it the right file?"
    )


class BoundedLoader(yaml.CSafeLoader):
    """A loader in C that refuses what is nested too deep with a RecursionError.

    The parser calls itself, and too many levels would end the process.
    """

    _depth = 0

    def descend_resolver(self, *_: Any) -> None:
        """Called before each node that is composed, as nothing else of the loader is."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """Called after each node."""
        self._depth -= 1


class _Loader(BoundedLoader):
    """Refuses a key given twice and knows only YAML 1.2's booleans.

    In YAML 1.1 the key `on` of `evaluate.on` reads as true.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        letter: [
            (tag, regex)
            for tag, regex in resolvers
            if not tag.endswith(":bool") or letter in "tTfF"
        ]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_MERGE = "tag:yaml.org,2002:merge"


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
            raise yaml.constructor.ConstructorError(
                None,
                None,
                "merge keys (<<) are not read; write the keys out",
                key_node.start_mark,
            )
        key = loader.construct_object(key_node)
        if isinstance(key, str) and key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {key!r} is given twice", key_node.start_mark
            )
        if isinstance(key, str):
            seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _note_lines(
    node: yaml.Node | None, path: KeyPath, lines: dict[KeyPath, int], seen: set[int]
) -> None:
    # An alias leads to a node again; followed every time, a few of them make millions.
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            lines[here] = key.start_mark.line + 1
            _note_lines(value, here, lines, seen)
    elif isinstance(node, yaml.SequenceNode):
        for position, value in enumerate(node.value):
            here = (*path, position)
            lines[here] = value.start_mark.line + 1
            _note_lines(value, here, lines, seen)
