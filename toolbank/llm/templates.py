"""Prompt templates: Jinja files that users may change, and the schemas of their replies."""

from __future__ import annotations

import traceback
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

from toolbank.config.assets import (
    Asset,
    current_folders,
    find_asset,
    find_inside,
    looking_in,
)
from toolbank.llm.chat import ChatRequest, Message, Task
from toolbank.system.errors import InputError
from toolbank.system.files import (
    read_json,
    read_text,
    sha256_file,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from pathlib import Path

    from jinja2 import Template


_HASHES = "sha256.json"
# Templates with the schema of another one.
_SAME_REPLIES = {"write-number.j2": "write.j2"}


class PromptTemplate:
    """The file `prompts/<name>`, found by `find_asset`, and the schema of its replies.

    Both are read at their first use.

    Raises:
        InputError: there is no such file.
    """

    def __init__(self, name: str) -> None:
        self.path = find_asset("prompts", name).path
        self._name = name
        self._folders = current_folders()

    @classmethod
    def saved(cls, name: str, folder: Path) -> Self:
        """Load the template that `save` wrote to a folder, or find it by name if there is none.

        Raises:
            InputError: there is no such file, or one is damaged or missing.
        """
        if not folder.is_dir():
            return cls(name)
        hashes: Any = read_json(folder / _HASHES)
        kept = {}
        for file in (name, _schema_name(name)):
            path = find_inside(folder, file)
            noted = hashes.get(file) if isinstance(hashes, dict) else None
            if path is None or sha256_file(path) != noted:
                raise InputError(f"{folder / file}: damaged or missing.")
            kept[f"prompts/{file}"] = path
        folders = current_folders()
        with looking_in(replace(folders, kept={**folders.kept, **kept})):
            return cls(name)

    def save(self, folder: Path) -> None:
        """Write the template, its schema and their hashes to a folder."""
        schema = _schema_name(self._name)
        write_text(folder / self._name, read_text(self.path))
        write_json(folder / schema, self.schema)
        files = (self._name, schema)
        write_json(
            folder / _HASHES, {file: sha256_file(folder / file) for file in files}
        )

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of replies.

        Raises:
            InputError: there is none, or it is not the schema of an object.
        """
        with looking_in(self._folders):
            path = find_schema(self._name).path
        schema: Any = read_json(path)
        if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
            return schema
        raise InputError(
            f"{path}: not the JSON Schema of an object. It needs `properties`, a mapping."
        )

    def render(self, **values: Any) -> str:
        """Fill the template with values.

        It is sandboxed and only sees the values; a value is never read as a template.

        Raises:
            InputError: the template is broken, or uses a name without a value.
        """
        from jinja2 import TemplateError

        from toolbank.llm.sandbox import MOST_CHARACTERS

        try:
            text = self._template.render(values).strip()
            if len(text) > MOST_CHARACTERS:
                raise ValueError(f"it has over {MOST_CHARACTERS:,} characters")
            return text
        except (
            TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            MemoryError,
            RecursionError,
        ) as error:
            line = getattr(error, "lineno", None) or self._find_line(error) or "?"
            raise InputError(
                f"{self.path}, line {line}: the template can't be used ({error}). "
                f"It may use: {', '.join(sorted(values))}."
            ) from error

    def request(
        self, attempt: int, step: str, task: Task | None = None, **values: Any
    ) -> ChatRequest:
        """Make the request whose prompt is the template, filled with values.

        Raises:
            InputError: as `render` and `schema`.
        """
        messages = (Message("user", self.render(**values)),)
        return ChatRequest(attempt, step, messages, self.schema, task)

    @cached_property
    def _template(self) -> Template:
        return _compile(read_text(self.path))

    def _find_line(self, error: BaseException) -> int | None:
        """Find the line of the template at which rendering stopped."""
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == "<template>"
        ]
        return lines[-1] if lines else None


def check_template(path: Path) -> None:
    """Refuse a broken template before anything is paid for.

    Raises:
        InputError: the file is missing, broken at a line, or nested too deeply.
    """
    from jinja2 import TemplateError

    try:
        _compile(read_text(path))
    except (SyntaxError, RecursionError, MemoryError, TemplateError) as error:
        line = getattr(error, "lineno", None) or "?"
        raise InputError(
            f"{path}, line {line}: the template can't be used ({error})."
        ) from error


def find_schema(template: str) -> Asset:
    """Find the file with the JSON Schema of replies to a template, such as "judge.j2".

    Raises:
        InputError: there is no such file.
    """
    return find_asset("prompts", _schema_name(template))


def _schema_name(template: str) -> str:
    name = _SAME_REPLIES.get(template, template).removesuffix(".j2")
    return f"schemas/{name}.json"


@lru_cache(maxsize=64)
def _compile(text: str) -> Template:
    from jinja2 import StrictUndefined

    from toolbank.llm.sandbox import Sandbox

    environment = Sandbox(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(text)
    # They are copied at each rendering; from a ChainMap, that took a third of it for polish.j2.
    template.globals = dict(template.globals)
    return template
