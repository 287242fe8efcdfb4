"""Read YAML files of users, with the line of every key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from toolbank.system.errors import InputError

KeyPath = tuple[str | int, ...]

MOST_BYTES = 1_000_000
"""The longest text that is read."""
_DEEPEST = 300  # levels
_TAB = re.compile(r" *(?:- *)*\t")


def parse_mapping(text: str, where: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Read a YAML mapping; `where` names the text in errors.

    Returns the data, and the line (from 1) of every key and item by its path.

    Raises:
        InputError: it is not YAML, has a key twice, is too long, or is not a mapping.
    """
    data, root = _read(text, where)
    if not isinstance(data, dict):
        raise InputError(
            f"{where}: should be a mapping of keys, with lines such as `name: weather`."
        )
    lines: dict[KeyPath, int] = {}
    _note_lines(root, (), lines, set())
    return data, lines


def parse_value(text: str, where: str) -> Any:
    """Read any YAML value.

    Raises:
        InputError: it is not YAML, has a key twice, or is too long.
    """
    return _read(text, where)[0]


def _read(text: str, where: str) -> tuple[Any, yaml.Node | None]:
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
        # If the text ends too early, the mark is after its last line.
        last = len(text.splitlines())
        line = f", line {min(mark.line + 1, last)}" if mark else ""
        problem = explain_problem(error, text)
        raise InputError(f"{where}{line}: not valid YAML: {problem}.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: not valid YAML: {error}.") from error
    except RecursionError as error:
        raise InputError(f"{where}: not valid YAML: nested too deep.") from error
    # A tag that does not fit its value.
    except (LookupError, AttributeError, TypeError) as error:
        raise InputError(
            f"{where}: not valid YAML: a tag does not fit its value."
        ) from error


def explain_problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """Say what the parser's message leaves open: a tab, or several documents."""
    number = error.problem_mark.line if error.problem_mark else 0
    lines = text.split("\n", number + 1)[number : number + 1]
    if _TAB.match("".join(lines)):
        return "a tab in the indentation; replace tabs by spaces"
    if "another document" in str(error.problem):
        return "several documents, with `---` between them; keep one in the file"
    return str(error.problem)


def dump_mapping(data: Mapping[str, Any]) -> str:
    """Write data as YAML that reads back to the same, keys in their order."""
    # Not the dumper in C: it escapes emoji.
    return str(
        yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=88)
    )


def too_long(where: str) -> InputError:
    """Return the error for a text that is too long."""
    return InputError(
        f"{where}: over {MOST_BYTES / 1e6:.0f} MB, more than is read. Is it the right file?"
    )


class BoundedLoader(yaml.CSafeLoader):
    """A loader in C that raises RecursionError for deep nesting, which would crash the parser."""

    _depth = 0

    def descend_resolver(self, *_: Any) -> None:
        """Count a level; the loader calls this before each node."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError

    def ascend_resolver(self) -> None:
        """End a level; the loader calls this after each node."""
        self._depth -= 1


class _Loader(BoundedLoader):
    """Refuses duplicate keys, and reads only the booleans of YAML 1.2: in 1.1, `on` is true."""

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
                "merge keys (<<) are not supported; write the keys out",
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
    # Visit a node once: a few nested aliases lead to it millions of times.
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
