"""The help of a command, and checks that all commands share."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

from toolbank.system.extras import require_extra


class HelpedCommand(TyperCommand):
    """A command whose help lists its arguments; the default metavar is the name in capitals."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            if param.metavar is None:
                param.metavar = str(param.name).upper()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse an empty value, such as that of an unset variable; as a path it would be `.`.

        Raises:
            BadParameter: names the parameter.
        """
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        params: list[Any] = self.params
        for param in params:
            value = given.get(param.name)
            if "" in (value if isinstance(value, list | tuple) else [value]):
                raise typer.BadParameter("it is empty.", ctx=ctx, param=param)
        return list(super().parse_args(ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command, if its libraries are installed.

        Raises:
            MissingLibraryError: names the extra to install.
        """
        require_extra(str(self.name))
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """List what follows the command's name; optional arguments in brackets."""
        return [
            "[OPTIONS]",
            *(
                param.metavar if param.required else f"[{param.metavar}]"
                for param in self._arguments
            ),
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options."""
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
    """A command that takes an API; its help lists what may be one."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the summary, and what each kind of source takes."""
        from toolbank.sources.collect import list_choices

        super().format_help_text(ctx, formatter)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"An API is one of these: {list_choices()}.")
