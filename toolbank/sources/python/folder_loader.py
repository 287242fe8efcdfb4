"""Let griffe read a folder of Python source, with each `__all__` as Python would fill it."""

import ast
from pathlib import Path
from typing import Any

import griffe


class FolderLoader(griffe.GriffeLoader):
    """Loads the packages and modules in a folder without running any of them."""

    def __init__(self, home: Path) -> None:
        super().__init__(
            search_paths=[home],
            allow_inspection=False,
            store_source=False,
            extensions=griffe.load_extensions(_ReadExports()),
        )

    def expand_exports(
        self, module: griffe.Module, seen: set[str] | None = None
    ) -> None:
        """Expand the `__all__` of modules in packages without one, too."""
        seen = {*(seen or ()), module.path}
        super().expand_exports(module, seen)
        for inner in module.modules.values() if module.exports is None else ():
            if not inner.is_alias and inner.path not in seen:
                self.expand_exports(inner, seen)

    def expand_wildcards(
        self,
        obj: griffe.Object,
        *,
        external: bool | None = None,
        seen: set[str] | None = None,
    ) -> None:
        """Expand `from .name import *`; what it imports by that name hides the sub-module."""
        for member in obj.members.values():
            home = member.wildcard if isinstance(member, griffe.Alias) else None
            module = obj.members.get(home.rpartition(".")[2]) if home else None
            if isinstance(module, griffe.Module) and module.path == home:
                own = module.members.get(module.name)
                is_first = obj.imports.get(module.name, home) == home
                if own is not None and own.is_wildcard_exposed and is_first:
                    obj.imports[module.name] = own.path
        super().expand_wildcards(obj, external=external, seen=seen)


class _ReadExports(griffe.Extension):
    """Lets griffe read `__all__.extend(names)`, and `list(names)` in an `__all__`."""

    def on_module_node(self, *, node: Any, **_: Any) -> None:
        if isinstance(node, ast.AST):
            _PlainExports().visit(node)


class _PlainExports(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        match node.value:
            case ast.Call(
                func=ast.Attribute(ast.Name("__all__") as target, method), args=[names]
            ) if method in ("extend", "append"):
                names = ast.List([names]) if method == "append" else names
                stored = ast.Name(target.id, ast.Store())
                whole = ast.AugAssign(stored, ast.Add(), _without_calls(names))
                return ast.fix_missing_locations(ast.copy_location(whole, node))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if any(_is_all(target) for target in node.targets):
            node.value = _without_calls(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if _is_all(node.target):
            node.value = _without_calls(node.value)
        return node


def _is_all(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "__all__"


def _without_calls(names: ast.expr) -> ast.expr:
    """A list of names without the calls of `list`, `sorted` and the like around its parts."""
    match names:
        case ast.Call(func=ast.Name("list" | "tuple" | "sorted" | "set"), args=[inner]):
            return _without_calls(inner)
        case ast.BinOp():
            names.left = _without_calls(names.left)
            names.right = _without_calls(names.right)
        case ast.Starred():
            names.value = _without_calls(names.value)
        case ast.List() | ast.Tuple():
            names.elts = [_without_calls(one) for one in names.elts]
    return names
