"""How the help of a command reads, and what no command takes."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from toolbank.system.extras import demand_extra


class HelpedCommand(TyperCommand):
    """A command whose help names what it takes: RECIPE, [QUERY], --out DIR.

    What has no metavar of its own has its name in capitals.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            if param.metavar is None:
                param.metavar = str(param.name).upper()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse a value that is empty, such as of a variable that isn't set; as a path it is `.`.

        Raises:
            BadParameter: there is one; which.
        """
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        params: list[Any] = self.params
        for param in params:
            value = given.get(param.name)
            if "" in (value if isinstance(value, list | tuple) else [value]):
                raise typer.BadParameter("it is empty.", ctx=ctx, param=param)
        return list(super().parse_args(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """Run it, unless it can do nothing with what is installed here.

        Raises:
            MissingLibraryError: a library is missing; the message says which extra brings it.
        """
        demand_extra(str(self.name))
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """What follows the command's name; in brackets what may be left out."""
        return [
            "[OPTIONS]",
            *(
                param.metavar if param.required else f"[{param.metavar}]"
                for param in self._arguments
            ),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and then the options."""
        if self._arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(one.metavar, one.help) for one in self._arguments])
        others = [one for one in self.get_params(ctx) if one not in self._arguments]
        with formatter.section("Options"):
            formatter.write_dl([one.get_help_record(ctx) for one in others])

    @property
    def _arguments(self) -> list[Any]:
        return [one for one in self.params if one.param_type_name == "argument"]


class ApiCommand(HelpedCommand):
    """A command that is given an API; its help says what may be one."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what it does, and what the kinds of sources take."""
        from toolbank.sources.recognise import list_choices

        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"An API is one of these: {list_choices()}.")
