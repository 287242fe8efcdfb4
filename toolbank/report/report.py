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


def write_report(run: Path, config: ReportConfig, chosen: str = "") -> Path:
    """Write `run`/report.html from the files of a run, and return its path.

    `chosen` is the default retriever; the headline has its figures. quality.json next to it has the shown figures of the bank, for other programs. The same files
    give the same bytes. The page is self-contained, and its content security policy forbids
    loading anything. Every text of the run is escaped.

    Raises:
        InputError: there is no bank, or a file is damaged.
        ToolbankError: the page can't be written.
    """
    page = describe_page(read_content(run), config, chosen)
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
    """Make the Jinja environment, which escapes every text, and refuses missing names."""
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
    """Remove control characters, and cut the text if it is too long to read."""
    visible = "".join(c for c in text if c.isprintable() or c in "\n\t")
    if len(visible) <= longest:
        return visible
    return (
        f"{visible[:longest].rstrip()} … [{len(visible) - longest:,} more characters]"
    )


def percent(share: float | None, digits: int = 0) -> str:
    """Format a share as a percentage; a dash for None."""
    if share is None:
        return "\u2013"
    visible = f"{100 * share:.{digits}f}"
    # Do not round to 0 or 100 %.
    if 0 < share < 1 and float(visible) in (0, 100) and digits < 2:
        return percent(share, digits + 1)
    return f"{visible} %"


def count(number: int, noun: str = "", plural: str = "") -> str:
    """Format a number with separators, and a noun in the right form."""
    return numbers.count(number, noun, plural) if noun else f"{number:,}"


def money(dollars: float | None) -> str:
    """Format dollars with cents, or with two digits if they are less; a dash for None."""
    if dollars is None:
        return "\u2013"
    digits = 2 - math.ceil(math.log10(dollars)) if 0 < dollars < 0.0995 else 2
    return f"${dollars:,.{digits}f}"


def seconds(value: float | None) -> str:
    """Format seconds; a dash for None."""
    return "\u2013" if value is None else numbers.seconds(value)


def web_address(url: str) -> str:
    """Return the URL if it is http or https, else "": no other scheme becomes a link."""
    return url if url.lower().startswith(("https://", "http://")) else ""


def read_template(name: str) -> str:
    """Read a file of the templates folder."""
    path: Any = resources.files("toolbank.report") / "templates" / name
    return str(path.read_text(encoding="utf-8"))


def line_figure(chart: LineChart, unit: str, caption: str) -> str:
    """Draw a line chart as SVG, with `unit` below the axis, and a `caption` for screen readers."""
    macros = environment().get_template("figures.svg").module
    svg: str = str(macros.lines(chart, unit, caption)).strip()  # type: ignore[attr-defined]
    head, _, rest = svg.partition(">")
    sheet = f"<style>{read_template('style.css')}</style>"
    ground = '<rect width="100%" height="100%" style="fill: var(--paper)"/>'
    return f'{head} xmlns="http://www.w3.org/2000/svg">{sheet}{ground}{rest}\n'
