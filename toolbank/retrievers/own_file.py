"""A retriever whose class is in a Python file of the user: its settings, and how it is loaded."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, ValidationError, create_model

from toolbank.config.base import IN_FILE_PATTERN
from toolbank.config.explain import first_problem
from toolbank.encoders import AnyEncoder
from toolbank.retrievers.kind import RetrieverConfig, RetrieverKind
from toolbank.system.consent import Grant, GrantValue, require_consent
from toolbank.system.errors import InputError
from toolbank.system.files import reading


class OwnRetrieverConfig(RetrieverConfig):
    """A class in a Python file, which runs only with the user's permission; other keys are its own settings.

    Its settings are read when the file runs, so a plan knows only those that are listed here.
    """

    model_config = ConfigDict(extra="allow")

    type: str = Field(
        pattern=IN_FILE_PATTERN,
        description="a Python file and a subclass of Retriever in it, such as ./mine.py:Mine",
        json_schema_extra={"format": "path"},
    )
    first_stage: str | None = Field(default=None, description="name of a retriever")
    encoder: AnyEncoder | None = None
    needs_queries: ClassVar[bool] = False

    @property
    def label(self) -> str:
        """Its name, by default that of its class."""
        return self.name or self.type.rpartition(":")[2]

    @property
    def needs(self) -> tuple[str, ...]:
        """Its first stage, if it has one."""
        return (self.first_stage,) if self.first_stage else ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The Python file."""
        return (Path(self.type.rpartition(":")[0]).resolve(),)

    @property
    def grants(self) -> tuple[Grant, ...]:
        """To run the file."""
        return (Grant("import", (GrantValue(str(self.files[0])),)),)

    def read_settings(self, kind: RetrieverKind) -> RetrieverConfig:
        """Read the settings by the class's own model.

        Raises:
            InputError: one of them is not valid.
        """
        unset = {name for name in ("first_stage", "encoder") if not getattr(self, name)}
        given = {key: value for key, value in self if key not in unset}
        try:
            return kind.config.model_validate({**given, "name": self.label})
        except ValidationError as error:
            raise InputError(
                f"retrievers: {self.label}: {first_problem(error)}. Correct it in the recipe, or "
                f"annotate `config` of the class in {self.files[0]} with the model of its settings."
            ) from error


def load_kind(place: str) -> RetrieverKind:
    """Run the file of FILE.py:CLASS, once for each content; the annotation of `config` has the settings.

    Raises:
        InputError: the user does not permit it, or the file fails or has no such Retriever; the
            message names the file, the line and the class.
    """
    from toolbank.retrievers.base import Retriever

    own = OwnRetrieverConfig(type=place)
    file, name = str(own.files[0]), own.label
    require_consent(own.grants, name)
    with reading(own.files[0]):
        content = own.files[0].read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    module = ModuleType(
        f"toolbank_{hashlib.sha256((file + sha256).encode()).hexdigest()}"
    )
    module.__file__ = file
    line: int | None = 1
    try:
        tree = ast.parse(content, file)
        named = (node for node in tree.body if getattr(node, "name", "") == name)
        line = next((node.lineno for node in named), 1)
        if sys.modules.setdefault(module.__name__, module) is module:
            exec(compile(tree, file, "exec", dont_inherit=True), vars(module))  # noqa: S102
        made = vars(sys.modules[module.__name__]).get(name)
        if not (isinstance(made, type) and issubclass(made, Retriever)):
            raise TypeError("there is no subclass of Retriever of this name")
        if inspect.isabstract(made):
            raise TypeError(f"it lacks {', '.join(sorted(made.__abstractmethods__))}")
        # Other annotations may name what is imported for type checkers alone.
        base = inspect.get_annotations(made).get("config", RetrieverConfig)
        if isinstance(base, str):
            base = eval(base, vars(sys.modules[module.__name__]))  # noqa: S307
        # Another content than that of the fit is refused.
        fields: Any = {
            "type": (str, ...),
            "file_sha256": (Annotated[str, Field(pattern=f"^{sha256}$")], sha256),
        }
        config = create_model(base.__name__, __base__=base, **fields)
    except (Exception, SystemExit) as error:
        sys.modules.pop(module.__name__, None)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [line, *(one.lineno for one in frames if one.filename == file)]
        line = lines[-1]
        if isinstance(error, SyntaxError) and error.filename == file:
            line = error.lineno
        raise InputError(
            f"{file}, line {line}: {name} cannot be loaded ({type(error).__name__}: {error}). "
            "Correct the file, or take the class out of `retrievers`."
        ) from error
    return RetrieverKind(config, f"{module.__name__}:{name}")
