"""Export the tools of a bank as functions of a model's API, each under a unique name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from toolbank.bank.bank import Bank
from toolbank.bank.function_writer import gemini_name, wrap_functions, write_function
from toolbank.bank.records import name_functions
from toolbank.publish.exports.kind import ExportKind
from toolbank.system.files import write_json


def export_functions(bank: Bank, folder: Path, form: str) -> None:
    """Write functions.json and function_names.json, which maps these names to the tools' names.

    cut.json lists by tool what its schemas lost, if anything.
    """
    names = name_functions(bank.tool_names)
    if form == "gemini":
        names = {tool: gemini_name(name) for tool, name in names.items()}
    written = [write_function(tool, form, names[tool.name]) for tool in bank.tools]
    functions = wrap_functions([function for function, _ in written], form)
    write_json(folder / "functions.json", functions)
    write_json(
        folder / "function_names.json", {names[name]: name for name in bank.tool_names}
    )
    cut = {
        tool.name: said
        for tool, (_, said) in zip(bank.tools, written, strict=True)
        if said
    }
    if cut:
        write_json(folder / "cut.json", cut)


def _make(form: str) -> ExportKind:
    write = partial(export_functions, form=form)
    return ExportKind(write, ("cut.json",), tools_only=True)


FUNCTIONS, ANTHROPIC, GEMINI, MCP = map(_make, ("openai", "anthropic", "gemini", "mcp"))
