"""`toolbank init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import echo


def init(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of the recipe and of its runs; may be left out before an API."
        ),
    ],
    api: Annotated[str | None, typer.Argument(help="What you have of it.")] = None,
    package: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="An installed Python package to read."),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(metavar="SITE", help="A site of crawlers/SITE.yaml to crawl."),
    ] = None,
    sphinx: Annotated[
        str | None, typer.Option(metavar="URL", help="Any other Sphinx site to crawl.")
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Tools and labelled requests that are there already."
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Address of your model's OpenAI-compatible endpoint."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model's name there.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="NAME.yaml if not given.")
    ] = None,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts",
            help="Also copy the prompts to `prompts` beside the recipe, to change them.",
        ),
    ] = False,
) -> None:
    """Write a recipe for an API of your own."""
    from toolbank.commands.first_recipe import (
        copy_prompts,
        describe_source,
        find_given,
        find_missing_grants,
        has_query,
        read_ahead,
        write_recipe,
    )
    from toolbank.system.consent import explain_missing

    has_source = any((package, site, sphinx, dataset))
    given = find_given(name, api, has_source)
    found = read_ahead(given.source) if given.source else None
    path, *others = write_recipe(
        out or Path(f"{given.name}.yaml"),
        name=given.name,
        given=given.source,
        package=package,
        site=site,
        sphinx=sphinx,
        dataset=dataset,
        base_url=base_url,
        model=model,
    )
    if given.source and found:
        echo(describe_source(given.source, found, path))
    unread = isinstance(found, str)
    if not (given.source or has_source):
        echo(
            f"No file, folder or installed package is called {given.name}, so that the recipe has "
            f"no sources yet: write them into it, or give what you have: toolbank init "
            f"{given.name} API"
        )
    following = f"run {path} --until sources" if unread else f"plan {path}"
    echo(f"Wrote {path}. Look it over, then: toolbank {following}")
    if given.source and has_query(given.source):
        echo(
            f"The address has a query, which stands in {path} now and comes into every run's copy. "
            "If it is a secret, delete that file, download the document and give its path."
        )
    if base_url and (missing := find_missing_grants(base_url)):
        echo(explain_missing(missing, str(path)))
    if prompts:
        others += copy_prompts(path.parent / "prompts")
    for other in others:
        echo(f"Wrote {other}")
