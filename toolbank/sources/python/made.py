"""A tool made of a docstring and a signature."""

from dataclasses import replace

from toolbank.bank.records import PythonCall, Tool, ToolKind
from toolbank.sources.documented import Documented
from toolbank.sources.schema.parameters import Parameter
from toolbank.sources.signatures import Signature


def make_tool(
    name: str,
    kind: ToolKind,
    documented: Documented,
    signature: Signature,
    source: str = "",
) -> Tool:
    """The tool of a docstring and a signature, which goes by its import path.

    Without a `source`, its name is no import path, and nothing is said of how it is called.
    """
    if kind == "method":
        signature = _without_self(signature)
    if kind == "class":
        signature = replace(signature, text=signature.text.removesuffix(" -> None"))
    takes = kind not in ("module", "property", "object")
    tool = documented.as_tool(
        name,
        kind,
        f"{name}{signature.text}" if signature.text else "",
        _combined(signature, documented) if takes else (),
        source,
    )
    return tool.model_copy(update={"call": PythonCall(path=name)}) if source else tool


def _without_self(signature: Signature) -> Signature:
    first = signature.parameters[:1]
    if not first or first[0].name not in ("self", "cls"):
        return signature
    text = signature.text.replace(f"({first[0].name}, /, ", "(")
    text = text.replace(f"({first[0].name}, /", "(").replace(f"({first[0].name}, ", "(")
    return Signature(text.replace(f"({first[0].name}", "("), signature.parameters[1:])


def _combined(signature: Signature, documented: Documented) -> list[Parameter]:
    """The signature's parameters in their order with the documented words.

    A parameter that is only documented comes last if the signature takes any keyword, or there
    is no signature; otherwise it is another's name and is left out.
    """
    described = {item.name.lstrip("*"): item for item in documented.parameters}
    combined: list[Parameter] = []
    for item in signature.parameters:
        words = described.pop(item.name.lstrip("*"), None)
        if words is not None:
            item = replace(
                item,
                classifier=words.classifier or item.classifier,
                description=words.description,
            )
        combined.append(item)
    if not signature.parameters or signature.parameters[-1].name.startswith("**"):
        combined.extend(described.values())
    return combined
