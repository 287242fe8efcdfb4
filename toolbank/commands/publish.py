"""`toolbank publish` and `toolbank export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolbank.commands.options import RunArgument, complain, echo
from toolbank.publish.exports import EXPORTS

_HUB = "hub:"


def publish(
    run: RunArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="DIR|hub:OWNER/NAME",
            help="The folder to write to, or the dataset repository of a hub.",
        ),
    ],
    licence: Annotated[
        str,
        typer.Option(
            "--license",
            metavar="ID",
            help=(
                "The licence of the dataset, such as cc-by-4.0; by default the card states "
                "none."
            ),
        ),
    ] = "",
    retriever: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The retriever to publish with the bank. Default: the one that `toolbank search` uses.",
        ),
    ] = "",
    with_replies: Annotated[
        bool,
        typer.Option(
            "--with-replies",
            help=(
                "Publish the models' replies and the prompts sent, too, so that others can "
                "reproduce the bank. They may be private."
            ),
        ),
    ] = False,
    author: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An author for the citation; repeatable."),
    ] = None,
    skip_stale: Annotated[
        bool,
        typer.Option(
            "--skip-stale",
            help="Publish without results that are of an earlier state of the run.",
        ),
    ] = False,
    public: Annotated[
        bool, typer.Option("--public", help="On a hub: let anyone read it.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="On a hub: send it without asking first.")
    ] = False,
) -> None:
    """Publish a run's bank with a dataset card to a folder or a hub."""
    from toolbank.publish.publish import (
        PublicationParts,
        publish_to_folder,
        publish_to_hub,
        refuse_own_dataset,
    )
    from toolbank.run.folder import open_run
    from toolbank.system.errors import InputError

    wanted = PublicationParts(
        open_run(run),
        licence,
        retriever,
        replies=with_replies,
        authors=tuple(author or ()),
        skip_stale=skip_stale,
    )
    if to.startswith(_HUB):
        repository = to.removeprefix(_HUB)
        echo(f"Published {publish_to_hub(wanted, repository, public=public, sure=yes)}")
        return
    if public or yes:
        raise InputError(
            f"--{'public' if public else 'yes'}: of a hub, and --to {to} is a folder. Leave it out, "
            "or give --to hub:OWNER/NAME."
        )
    folder = Path(to)
    refuse_own_dataset(wanted, folder)
    made = publish_to_folder(wanted, folder)
    echo(f"Wrote {folder}: {made.summary}.")
    if made.reproduction and made.reproduction.problem:
        complain(
            "The published replies did not give the same bank again, and the card says so: "
            f"{made.reproduction.problem}."
        )
    if (folder / "prompts").is_dir():
        echo(
            f"{folder / 'prompts'} holds the run's prompt templates and examples. Remove what is "
            "private before you share the folder."
        )


def reproduce(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder that `toolbank publish --with-replies` wrote.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new run folder.")],
) -> None:
    """Make a published bank again from its replies, and compare the bytes."""
    from toolbank.publish.replies import reproduce_bank
    from toolbank.system.errors import ToolbankError

    found = reproduce_bank(folder, out)
    for name in found.same:
        echo(f"the same bytes: {name}")
    if found.different:
        raise ToolbankError(
            "\n".join(
                [
                    f"{out / 'bank'}: other bytes than published: {', '.join(found.different)}.",
                    *(f"  another version: {version}" for version in found.versions),
                ]
            )
        )
    echo(f"{out} has the published bank.")


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write to.")],
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="|".join(EXPORTS.own), help="How the bank is written."
        ),
    ] = "datasets",
) -> None:
    """Write a run's bank in another format."""
    from toolbank.publish.exports import export_folder
    from toolbank.run.folder import open_run
    from toolbank.run.refresh import refuse_outdated

    folder = open_run(run)
    if not EXPORTS.find(form, "--format").tools_only:
        refuse_outdated(folder)
    for path in export_folder(folder.bank, form, out):
        echo(f"Wrote {path}")
