"""Small faults in the functions of a checkout, and the same faults in another checkout.

`draw` makes a seeded sample of the mutants of an area; mutation.py tests them and says how a function and a
fault are found in another checkout.
"""

import ast
import copy
import difflib
import functools
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

AREAS = {
    "ranking": ["ranking"],
    "bank": ["bank"],
    "journal": ["journal"],
    "requests": ["generate", "asks", "verify", "judge"],
    "search": ["finder", "packed", "serve"],
}
_SAME_NAME = 0.4
_SAME_METHOD = 0.7
_SAME_STATEMENT = 0.6


@dataclass
class Function:
    """A function of a checkout: `text` is its syntax tree, without comments and docstring."""

    path: str
    name: str
    module: ast.Module
    node: ast.FunctionDef | ast.AsyncFunctionDef
    text: str

    @functools.cached_property
    def sites(self) -> "list[Site]":
        """All mutations of the function, in the order of its syntax tree."""
        return list(_find_sites(self.node, self.node))


def read_functions(checkout: Path) -> list[Function]:
    """Read the functions and methods of a checkout."""
    found = []
    for file in sorted((checkout / "toolbank").rglob("*.py")):
        module = ast.parse(file.read_text())
        path = str(file.relative_to(checkout))
        for name, node in _walk(module, ""):
            found.append(Function(path, name, module, node, _normalise(node)))
    return found


def _walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, Any]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _walk(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.If | ast.Try):
            yield from _walk(child, prefix)


def _normalise(node: Any) -> str:
    node = copy.deepcopy(node)
    node.body = node.body[has_docstring(node) :] or [ast.Pass()]
    return ast.unparse(node)


def has_docstring(node: Any) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def pair_functions(old: list[Function], new: list[Function]) -> dict[int, Function]:
    """Find the functions of `old` in `new`: {index in old: function}, each function once."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for number, function in enumerate(new):
        by_name[function.name].append(number)
        # In another class, too.
        by_name["." + function.name.rpartition(".")[2]].append(number)
    choices = []
    for index, function in enumerate(old):
        for number in _find_candidates(function, new, by_name):
            exact = function.name == new[number].name
            likeness = _compare(function.text, new[number].text)
            if likeness >= (_SAME_NAME if exact else _SAME_METHOD):
                moved = function.path != new[number].path
                choices.append((-exact, -likeness, moved, index, number))
    pairs: dict[int, Function] = {}
    taken = set()
    for *_, index, number in sorted(choices):
        if index not in pairs and number not in taken:
            pairs[index] = new[number]
            taken.add(number)
    return pairs


def _find_candidates(
    function: Function, new: list[Function], by_name: dict[str, list[int]]
) -> list[int]:
    same = [n for n in by_name[function.name] if new[n].text == function.text]
    return same or by_name["." + function.name.rpartition(".")[2]]


@functools.cache
def _compare(one: str, other: str) -> float:
    if one == other:
        return 1.0
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


@dataclass
class Site:
    """A mutation: in `parent`, the child at `field` and `index` is replaced by `new`."""

    operator: str
    statement: ast.AST
    parent: ast.AST
    field: str
    index: int | None
    new: Any
    detail: str = field(init=False)
    line: str = field(init=False)

    def __post_init__(self) -> None:
        self.line = _first_line(self.statement)
        old = self._replace(self.new)
        changed = _first_line(self.statement)
        self._replace(old)
        drops = self.operator in ("drop", "empty", "return", "jump")
        self.detail = _first_line(self.new) if drops else changed

    def _replace(self, new: Any) -> Any:
        if self.index is None:
            old = getattr(self.parent, self.field)
            setattr(self.parent, self.field, new)
        else:
            children = getattr(self.parent, self.field)
            old, children[self.index] = children[self.index], new
        return old

    def write(self, module: ast.Module) -> str:
        """Return the source of the module with this mutation."""
        old = self._replace(self.new)
        text = ast.unparse(module)
        self._replace(old)
        return text


def _first_line(node: Any) -> str:
    if isinstance(node, list):
        node = node[-1]
    return ast.unparse(ast.fix_missing_locations(node)).strip().split("\n")[0]


_COMPARISONS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_ARITHMETIC = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_NO_SWAP = {
    *_CALLS,
    "isinstance",
    "issubclass",
    "getattr",
    "hasattr",
    "setattr",
    "cast",
}
_NEGATED = ast.Eq | ast.NotEq | ast.Is | ast.IsNot | ast.In | ast.NotIn


def _find_sites(node: ast.AST, statement: ast.AST) -> Iterator[Site]:
    if node is statement and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _empty(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "args") and not (
            isinstance(node, ast.Call)
        ):
            continue
        many = isinstance(value, list)
        for index, child in enumerate(value if many else [value]):
            if not isinstance(child, ast.AST):
                continue
            inner = statement
            if isinstance(child, ast.stmt | ast.excepthandler):
                inner = child
            for operator, new in _variants(child, node, name):
                yield Site(operator, inner, node, name, index if many else None, new)
            yield from _find_sites(child, inner)


def _empty(node: Any) -> Iterator[Site]:
    inside = [one for part in node.body for one in ast.walk(part)]
    answers = any(isinstance(one, ast.Return) and one.value for one in inside)
    yields = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in inside)
    start = int(has_docstring(node))
    if not answers and not yields and len(node.body) > start + 1:
        yield Site("empty", node, node, "body", None, [*node.body[:start], ast.Pass()])


def _variants(node: Any, parent: ast.AST, name: str) -> Iterator[tuple[str, Any]]:
    """Yield (operator, replacement) for each fault that this node can have."""
    change = functools.partial(_change, node)
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                ops = list(node.ops)
                ops[index] = _COMPARISONS[type(operator)]()
                yield "comparison", change(ops=ops)
        case ast.BinOp() if type(node.op) in _ARITHMETIC:
            if not any(map(_is_sequence, (node.left, node.right))):
                yield "arithmetic", change(op=_ARITHMETIC[type(node.op)]())
        case ast.AugAssign():
            if type(node.op) in _ARITHMETIC:
                yield "arithmetic", change(op=_ARITHMETIC[type(node.op)]())
            yield "drop", ast.Pass()
        case ast.BoolOp():
            other = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield "and/or", change(op=other())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "not", node.operand
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield "constant", ast.Constant(node.value + 1)
        case ast.Return(value=ast.expr() as value):
            if not isinstance(value, ast.Constant) or value.value is not None:
                yield "return", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield "drop", ast.Pass()
        case ast.Raise():
            if "NotImplementedError" not in ast.unparse(node):
                yield "drop", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
            yield "drop", ast.Pass()
        case ast.Break():
            yield "jump", ast.Continue()
        case ast.Continue():
            yield "jump", ast.Break()
        case ast.Slice():
            if node.lower:
                yield "bound", change(lower=None)
            if node.upper:
                yield "bound", change(upper=None)
        case ast.ExceptHandler(type=ast.Tuple(elts=kinds)) if len(kinds) > 1:
            for index in range(len(kinds)):
                rest = kinds[:index] + kinds[index + 1 :]
                yield "except", change(type=ast.Tuple(rest, ast.Load()))
        case ast.ExceptHandler(type=ast.expr()):
            yield "except", change(type=ast.Tuple([], ast.Load()))
        case ast.Call():
            function = node.func.id if isinstance(node.func, ast.Name) else ""
            if function in _CALLS:
                yield "min/max", change(func=ast.Name(_CALLS[function], ast.Load()))
            match node.args:
                case [ast.Starred(), *_] | [_, ast.Starred(), *_]:
                    pass
                case [one, other, *rest] if ast.dump(one) != ast.dump(other):
                    if function not in _NO_SWAP:
                        yield "arguments", change(args=[other, one, *rest])
    is_test = name == "test" and isinstance(parent, ast.If | ast.IfExp)
    if is_test and not _has_negation(node):
        yield "condition", ast.UnaryOp(ast.Not(), node)
    if name == "ifs":
        yield "condition", ast.Constant(True)


def _has_negation(node: ast.AST) -> bool:
    """Say whether another operator has the negation of this condition already."""
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[-1], _NEGATED)
    return isinstance(node, ast.UnaryOp)


def _is_sequence(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, int | float)
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple)


def _change(node: Any, **changes: Any) -> Any:
    new = copy.copy(node)
    for name, value in changes.items():
        setattr(new, name, value)
    return new


@dataclass
class Mutant:
    """A mutation with an id that is the same in both checkouts."""

    id: str
    function: Function
    site: Site

    def describe(self) -> str:
        """Return one line: where, and what was put for what."""
        site = self.site
        where = f"{self.function.path}: {self.function.name}"
        return f"{where}: {site.operator}: `{site.line}` -> `{site.detail}`"


def draw(
    before: list[Function],
    after: list[Function] | None,
    area: str,
    sample: int,
    seed: int,
) -> list[tuple[Mutant, Mutant]]:
    """Draw the sample of an area: pairs of a mutant of `before` and the same of `after`."""
    functions = [f for f in before if f.path.split("/")[1] in AREAS[area]]
    pairs = dict(enumerate(functions))
    if after is not None:
        pairs = pair_functions(functions, after)
        changed = sum(functions[i].text != new.text for i, new in pairs.items())
        print(
            f"{area}: {len(pairs)} of {len(functions)} functions are in both checkouts, "
            f"{changed} of these with another body"
        )
    seen: Counter[str] = Counter()
    mutants = []
    for index, function in enumerate(functions):
        digest = _hash(f"{function.name}\n{function.text}")[:12]
        seen[digest] += 1
        if index not in pairs:
            continue
        twins = _pair_sites(function, pairs[index])
        for number, site in enumerate(function.sites):
            mutant = f"{function.name}#{digest}.{seen[digest]}#{number}"
            if twins[number]:
                old = Mutant(mutant, function, site)
                mutants.append((old, Mutant(mutant, pairs[index], twins[number])))
    mutants.sort(key=lambda both: _hash(f"{seed} {both[0].id}"))
    print(f"{area}: {min(sample, len(mutants))} of {len(mutants)} mutants")
    return mutants[:sample]


def _pair_sites(old: Function, new: Function) -> list[Site | None]:
    if old.text == new.text:
        return list(new.sites)
    choices = []
    for index, one in enumerate(old.sites):
        for number, other in enumerate(new.sites):
            if one.operator == other.operator:
                line = _compare(one.line, other.line)
                likeness = (line + _compare(one.detail, other.detail)) / 2
                if likeness >= _SAME_STATEMENT:
                    away = abs(index / len(old.sites) - number / len(new.sites))
                    choices.append((-likeness, away, index, number))
    pairs: dict[int, int] = {}
    taken = set()
    for *_, index, number in sorted(choices):
        if index not in pairs and number not in taken:
            pairs[index] = number
            taken.add(number)
    return [
        new.sites[pairs[index]] if index in pairs else None
        for index in range(len(old.sites))
    ]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
