"""Prompt templates: Jinja files that users may change, filled with data and nothing else."""

from __future__ import annotations

import traceback
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from toolbank.config.assets import find_asset
from toolbank.system.errors import InputError
from toolbank.system.files import read_text

if TYPE_CHECKING:
    from jinja2 import Template


class PromptTemplate:
    """The file `prompts/<name>`: the user's own, or else ours, as it is when first rendered.

    Raises:
        InputError: there is no such file.
    """

    def __init__(self, name: str) -> None:
        self.path = find_asset("prompts", name).path

    def render(self, **values: Any) -> str:
        """Fill the template with values.

        It is sandboxed and sees the values only; a value is never read as a template.

        Raises:
            InputError: the template is broken, or uses a name that there is no value for.
        """
        from jinja2 import TemplateError

        from toolbank.llm.sandbox import MOST_SIGNS

        try:
            text = self._template.render(values).strip()
            if len(text) > MOST_SIGNS:
                raise ValueError(f"it gives more than {MOST_SIGNS:,} signs")
            return text
        except (
            TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            MemoryError,
        ) as error:
            line = getattr(error, "lineno", None) or self._find_line(error) or "?"
            raise InputError(
                f"{self.path}, line {line}: the template can't be used ({error}). "
                f"It may use: {', '.join(sorted(values))}."
            ) from error

    @cached_property
    def _template(self) -> Template:
        return _compile(read_text(self.path))

    def _find_line(self, error: BaseException) -> int | None:
        """The line of the template at which rendering stopped."""
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == "<template>"
        ]
        return lines[-1] if lines else None


@lru_cache(maxsize=64)
def _compile(text: str) -> Template:
    from jinja2 import StrictUndefined

    from toolbank.llm.sandbox import Sandbox

    environment = Sandbox(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(text)
    # They are copied at each rendering; out of a ChainMap, that took a third of it for polish.j2.
    template.globals = dict(template.globals)
    return template
