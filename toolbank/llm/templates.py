"""Prompt templates: Jinja files that users may change, filled with data and nothing else."""

from __future__ import annotations

import traceback
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.assets import find_asset
from toolbank.errors import InputError

if TYPE_CHECKING:
    from jinja2 import Template


def render_template(name: str, **values: Any) -> str:
    """Fill `prompts/<name>` (the user's own, or else ours) with values.

    The template is sandboxed and sees the values only; a value is never read as a template.

    Raises:
        InputError: the template is missing, broken, or uses a name that there is no value for.
    """
    from jinja2 import TemplateError

    path = find_asset("prompts", name).path
    try:
        text = _compile(path, path.read_text(encoding="utf-8")).render(values)
    except (
        TemplateError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
    ) as error:
        line = getattr(error, "lineno", None) or _find_line(error, path)
        raise InputError(
            f"{path}, line {line or '?'}: the template can't be used ({error}). "
            f"It may use: {', '.join(sorted(values))}."
        ) from error
    except OSError as error:
        raise InputError(f"{path}: can't read ({error.strerror or error}).") from error
    return text.strip()


@cache
def _compile(path: Path, source: str) -> Template:
    from jinja2 import FunctionLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def load(name: str) -> tuple[str, str, None] | None:
        return (source, str(path), None) if name == path.name else None

    environment = ImmutableSandboxedEnvironment(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)


def _find_line(error: BaseException, path: Path) -> int | None:
    """The line of the template at which rendering stopped."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    return lines[-1] if lines else None
