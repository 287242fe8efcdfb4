"""`toolbank crawl`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import complain, echo
from toolbank.system.errors import ToolbankError


def crawl(
    site: Annotated[
        str | None, typer.Argument(help="A site of crawlers/SITE.yaml.")
    ] = None,
    sphinx: Annotated[
        str | None,
        typer.Option(
            "--sphinx", metavar="URL", help="Any Sphinx site, read by its inventory."
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Another address of the same site."),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Take only this name and what is in it; repeatable."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Leave this name out, and what is in it; repeatable."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The crawl's folder; crawls/SITE if not given."
        ),
    ] = None,
    contact: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Your mail or web address, told to the site with each request.",
        ),
    ] = None,
    refresh: Annotated[
        bool,
        typer.Option("--refresh", help="Ask the site whether pages have changed."),
    ] = False,
    private_addresses: Annotated[
        bool,
        typer.Option(
            "--private-addresses", help="Let a public name lead into a private network."
        ),
    ] = False,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="OLD NEW",
            help="Compare the tools of two crawls, and fetch nothing.",
        ),
    ] = None,
) -> None:
    """Read the tools of a Sphinx site, or compare two readings."""
    if diff is not None:
        from toolbank.commands.crawl_diff import compare_crawls

        others = (site, sphinx, base_url, include, exclude, out, contact)
        if any(others) or refresh or private_addresses:
            raise typer.BadParameter("--diff OLD NEW stands alone: it fetches nothing.")
        echo(compare_crawls(*diff))
        return
    if sphinx and (site or base_url):
        raise typer.BadParameter(
            "--sphinx URL reads a site by its inventory alone; give it without a site's name "
            "and --base-url."
        )
    if not (site or sphinx):
        raise typer.BadParameter("Give a site of crawlers/, or --sphinx URL.")

    from toolbank.commands.crawl_folder import crawl_to_folder

    crawled = crawl_to_folder(
        out,
        site=site,
        base_url=sphinx or base_url,
        include=include or (),
        exclude=exclude or (),
        contact=contact,
        refresh=refresh,
        private_addresses=private_addresses,
    )
    echo(crawled.describe())
    for problem in crawled.problems:
        complain(problem)
    if crawled.crawl.may_pass:
        raise ToolbankError(
            "the crawl is not complete. The same command asks for what is missing."
        )
