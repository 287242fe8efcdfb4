"""Show that two checkouts hold the same code, in whatever files it lies.

    python benchmarks/same_code.py OLD NEW

Every top-level statement of `toolbank/` but imports is compared by its syntax tree, without the imports inside it.
What only one side has is paired with the most similar statement of the other side: where the two differ in names or
strings alone, each difference is printed as a rename; else the pair is printed as changed. Exit code 1 if anything
changed otherwise than by a rename.
"""

import ast
import sys
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from pathlib import Path


class WithoutImports(ast.NodeTransformer):
    """Remove imports; a block that held nothing else holds `pass`."""

    def visit_Import(self, _):
        return None

    def visit_ImportFrom(self, _):
        return None

    def generic_visit(self, node):
        super().generic_visit(node)
        if getattr(node, "body", True) == []:
            node.body = [ast.Pass()]
        return node


def statements(checkout):
    """Each top-level statement's tokens, and the places that have it."""
    found = defaultdict(list)
    for path in sorted((Path(checkout) / "toolbank").rglob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        if body and isinstance(body[0], ast.Expr):
            body = body[1:]  # the module's docstring
        for node in body:
            made = WithoutImports().visit(node)
            if made is None or ast.unparse(made) in (
                "pass",
                "if TYPE_CHECKING:\n    pass",
            ):
                continue
            place = f"{path.relative_to(checkout)}:{node.lineno}"
            found[ast.unparse(made)].append(place)
    return found


def tokens(text):
    """The names and strings of a statement in order, and the statement without them."""
    names = []
    tree = ast.parse(text)
    for node in ast.walk(tree):
        for field in ("id", "name", "attr", "value"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                names.append(value)
                setattr(node, field, "_")
    return names, ast.dump(tree)


def main(old, new):
    before, after = statements(old), statements(new)
    count = {
        side: Counter({text: len(places) for text, places in found.items()})
        for side, found in (("old", before), ("new", after))
    }
    gone, added = count["old"] - count["new"], count["new"] - count["old"]
    print(f"{sum((count['old'] & count['new']).values())} statements are the same")
    renames, changed = set(), 0
    shapes = defaultdict(list)
    for text in added.elements():
        shapes[tokens(text)[1]].append(text)
    for text in gone.elements():
        names, shape = tokens(text)
        options = sorted(
            shapes[shape], key=lambda other: -SequenceMatcher(None, text, other).ratio()
        )
        if options:
            shapes[shape].remove(options[0])
            pairs = set(zip(names, tokens(options[0])[0], strict=True))
            renames |= {
                (before[text][0].partition(":")[0], a, b) for a, b in pairs if a != b
            }
        else:
            changed += 1
            print(f"\nonly in {old}: {before[text][0]}\n{text[:1500]}")
    for text in (text for texts in shapes.values() for text in texts):
        changed += 1
        print(f"\nonly in {new}: {after[text][0]}\n{text[:1500]}")
    print(f"\n{len(renames)} renames")
    for place, a, b in sorted(renames):
        print(f"{place}: {a} -> {b}")
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
