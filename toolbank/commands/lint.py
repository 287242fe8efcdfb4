"""`toolbank lint`."""

from __future__ import annotations

import gc
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from toolbank.commands.options import ApiArgument, SetOption, complain, echo
from toolbank.commands.tools import describe_left_out, find_sources, read_given
from toolbank.encoders import load_encoder
from toolbank.encoders.sentence import SentenceConfig
from toolbank.lint import RULES, RuleChoice, check_tools
from toolbank.lint.output import as_json, as_sarif, format_results
from toolbank.lint.places import Places
from toolbank.lint.rule import SEVERITIES, CheckedTools
from toolbank.sources.collect import name_sources, source_places
from toolbank.system.files import json_text
from toolbank.system.outputs import check_output, write_output


def lint(
    given: ApiArgument,
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help=f"Check only this; repeatable: {', '.join(r.name for r in RULES)}.",
        ),
    ] = None,
    ignored: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="RULE[:TOOL]",
            help="Do not check this, or not for tools that match a pattern; repeatable.",
        ),
    ] = None,
    fail_on: Annotated[
        Literal["error", "warning", "note", "never"],
        typer.Option(
            metavar="SEVERITY",
            help=(
                "Exit with code 1 if there is a finding of this severity or a higher one: "
                "error, warning, note or never."
            ),
        ),
    ] = "error",
    everything: Annotated[
        bool, typer.Option("--all", help="Show all findings, not only 5 of each rule.")
    ] = False,
    printed_as_json: Annotated[
        bool, typer.Option("--json", help="Print all findings as JSON.")
    ] = False,
    sarif: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write all findings as SARIF, for code scanning."
        ),
    ] = None,
    encoder: Annotated[
        bool,
        typer.Option(
            "--encoder",
            help="Search with the default encoder in addition to BM25, which takes minutes.",
        ),
    ] = False,
    settings: SetOption = None,
) -> None:
    """Check the tools of an API for faults that mislead models, without calling one."""
    choice = RuleChoice(rules or (), ignored or ())
    places = _find_places(given, settings or ())
    if sarif is not None:
        check_output(sarif, places.all_files, overwrite=True)
    # All that is read stays: to search it for garbage takes a quarter of the time.
    gc.set_threshold(200_000)
    collected = read_given(given, settings or ())
    network = load_encoder(SentenceConfig()) if encoder else None
    catalogue = CheckedTools(collected.tools, network)
    results = check_tools(catalogue, places, choice)
    if sarif is not None:
        log = json_text(as_sarif(results, given))
        write_output(sarif, log, places.all_files, overwrite=True)
    if printed_as_json:
        content = as_json(results, given, len(collected.tools))
        typer.echo(json.dumps(content, ensure_ascii=False, indent=1))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        lines = format_results(
            results, len(collected.tools), width, everything=everything
        )
        echo("\n".join(lines))
    for unused in choice.find_unused(collected.tools):
        complain(f"--ignore {unused}: no tool matches.")
    for line in describe_left_out(collected):
        complain(line)
    failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on != "never" else ()
    if any(result.finding.severity in failing for result in results):
        raise typer.Exit(1)


def _find_places(given: str, settings: Sequence[str]) -> Places:
    sources = find_sources(given, settings)
    files = {
        label: path
        for source, labels in zip(sources, name_sources(sources), strict=True)
        for path in (source.place, *source_places([source]))
        if isinstance(path, Path)
        for label in labels.values()
    }
    path = Path(given)
    return Places(files, path if path.is_file() else None)
