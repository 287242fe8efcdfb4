"""What the text of a module says about the names that users can import from it."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_IS_LAZY = re.compile(
    r"^[ \t]*(?:def __getattr__\(\s*\w+[^,)]*\)|__getattr__\b[^=(]*=|sys\.modules\[__name__\]\s*=)",
    re.M,
)
_MODULE = re.compile(r"\.*[^\W\d]\w*(?:\.[^\W\d]\w*)*")


@dataclass(frozen=True)
class ModuleExports:
    """The names that a module may offer without defining them.

    `lazy` are names that its `__getattr__` (PEP 562) may give, each with the name that the object
    has in one of the modules `homes`, which may be relative without a dot. `offered` are names of
    private modules that it imports to offer them: `import X as X`; None: all, as it defines
    nothing, or imports `*`.
    """

    lazy: Mapping[str, str] = field(default_factory=dict)
    homes: tuple[str, ...] = ()
    offered: frozenset[str] | None = None

    def offers(self, name: str) -> bool:
        """Whether a name that is imported from a private module is meant for users."""
        return self.offered is None or name in self.offered


def read_exports(text: str) -> ModuleExports:
    """Read the text of a module; one that can't be parsed says nothing."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ModuleExports()
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = [one for node in imports for one in node.names]
    definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    is_facade = any(one.name == "*" for one in names) or not any(
        isinstance(node, definitions) and not node.name.startswith("__")
        for node in tree.body
    )
    offered = None if is_facade else frozenset(one.asname or "" for one in names)
    if not _IS_LAZY.search(text):
        return ModuleExports(offered=offered)
    values = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    strings = [value for value in values if isinstance(value, str)]
    lazy = {text: text for text in strings if text.isidentifier()}
    lazy |= {one.asname or one.name: one.name for one in names}
    homes = [f"{'.' * node.level}{node.module or ''}" for node in imports]
    homes += filter(_MODULE.fullmatch, strings)
    return ModuleExports(lazy, tuple(dict.fromkeys(homes)), offered)
