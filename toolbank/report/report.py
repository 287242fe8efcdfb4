"""One self-contained HTML page about a run."""

from __future__ import annotations

import base64
import hashlib
import math
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.report import ReportConfig
from toolbank.report.content import read_content
from toolbank.report.page import describe_page
from toolbank.report.svg import LineChart
from toolbank.system import numbers
from toolbank.system.files import write_json, write_text

if TYPE_CHECKING:
    from jinja2 import Environment


QUALITY = "quality.json"

_LONGEST_TEXT = 1500


def write_report(run: Path, config: ReportConfig) -> Path:
    """Write `run`/report.html from what lies in the run folder, and give its path.

    quality.json beside it has the figures of the bank that it shows, for other programs.

    Same files, same bytes. The page loads nothing: styles, script and figures are in it, and
    its content security policy forbids all else. Every text of the run is escaped.

    Raises:
        InputError: there is no bank, or a file that is there is damaged.
        ToolbankError: the page can't be written.
    """
    page = describe_page(read_content(run), config)
    script = read_template("filter.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    html = (
        environment()
        .get_template("report.html")
        .render(
            page, style=read_template("style.css"), script=script, script_digest=digest
        )
    )
    write_json(run / QUALITY, page["quality"].as_json())
    target = run / "report.html"
    write_text(target, html)
    return target


@cache
def environment() -> Environment:
    """What renders the templates: every text is escaped, and a name that is missing is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("toolbank.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        clip=clip,
        percent=percent,
        count=count,
        money=money,
        seconds=seconds,
        web_address=web_address,
    )
    return environment


def clip(text: str, longest: int = _LONGEST_TEXT) -> str:
    """The text without control characters, cut where it is too long to be read."""
    visible = "".join(c for c in text if c.isprintable() or c in "\n\t")
    if len(visible) <= longest:
        return visible
    return (
        f"{visible[:longest].rstrip()} … [{len(visible) - longest:,} more characters]"
    )


def percent(share: float | None, digits: int = 0) -> str:
    """A share as a percentage; a dash where there is none."""
    if share is None:
        return "\u2013"
    visible = f"{100 * share:.{digits}f}"
    # Nearly all is not all, and next to nothing is not nothing.
    if 0 < share < 1 and float(visible) in (0, 100) and digits < 2:
        return percent(share, digits + 1)
    return f"{visible} %"


def count(number: int, noun: str = "", plural: str = "") -> str:
    """A number with separators, and a noun in its plural where it takes one."""
    return numbers.count(number, noun, plural) if noun else f"{number:,}"


def money(dollars: float | None) -> str:
    """Dollars with cents, or with two digits where they are less; a dash where unknown."""
    if dollars is None:
        return "\u2013"
    digits = 2 - math.ceil(math.log10(dollars)) if 0 < dollars < 0.0995 else 2
    return f"${dollars:,.{digits}f}"


def seconds(value: float | None) -> str:
    """Seconds; a dash where they were not measured."""
    return "\u2013" if value is None else numbers.seconds(value)


def web_address(url: str) -> str:
    """The URL if it is one of the web, else nothing: no other scheme becomes a link."""
    return url if url.lower().startswith(("https://", "http://")) else ""


def read_template(name: str) -> str:
    """The text of a file beside the templates."""
    path: Any = resources.files("toolbank.report") / "templates" / name
    return str(path.read_text(encoding="utf-8"))


def line_figure(chart: LineChart, unit: str, caption: str) -> str:
    """The SVG of a chart of lines; `unit` stands below its axis, `caption` is read aloud."""
    macros = environment().get_template("figures.svg").module
    svg: str = str(macros.lines(chart, unit, caption)).strip()  # type: ignore[attr-defined]
    head, _, rest = svg.partition(">")
    sheet = f"<style>{read_template('style.css')}</style>"
    ground = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f'{head} xmlns="http://www.w3.org/2000/svg">{sheet}{ground}{rest}\n'
