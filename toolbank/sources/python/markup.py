"""reStructuredText as it stands in docstrings, made plain text."""

import re
import textwrap

_DROPPED = (
    "versionadded|versionchanged|versionremoved|index|plot|image|figure|currentmodule|"
    "module|autosummary|toctree|deprecated|only|rubric|highlight|contents|automodule|math"
)
_ROLE = re.compile(r":[a-zA-Z][\w:+.-]*:`([^`]*)`")
_TITLED = re.compile(r"^([^<]*)<([^<>]*)>$")
_DIRECTIVE = re.compile(r"^(\s*)\.\.\s+(?:([\w:+-]+)::)?(.*)$")


def plain(text: str) -> str:
    """Prose without inline markup and directives; paragraphs are one line each.

    Blocks that prose can do without (versions, plots, formulas) are left out; notes and
    warnings keep their words. Indented blocks and lists keep their lines.
    """
    paragraphs = re.split(r"\n\s*\n", without_directives(text))
    return "\n\n".join(
        joined for paragraph in paragraphs if (joined := _paragraph(paragraph))
    )


def plain_line(text: str) -> str:
    """The same as one line."""
    return " ".join(plain(text).split())


def inline(text: str) -> str:
    """A piece of prose with its inline markup taken away."""
    text = _ROLE.sub(lambda match: _role_text(match[1]), text)
    text = re.sub(r"``(.+?)``", r"\1", text, flags=re.S)
    text = re.sub(r"`([^`]+)`_{0,2}", lambda match: _role_text(match[1]), text)
    text = re.sub(r"(?<![\w*])\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*(?!\w)", r"\1", text)
    text = re.sub(r"(?<![\w*\\])\*(?=[^\s*])([^*\n]+?)(?<=\S)\*(?![\w*])", r"\1", text)
    text = re.sub(r"\s?\[[#\w.-]+\]_(?!\w)", "", text)
    text = re.sub(r"\|([A-Z]\w*)\|", r"\1", text)
    return re.sub(r"\\([*_`|])", r"\1", text)


def without_directives(text: str) -> str:
    """Leave out directives that only markup needs, and the first lines of the others."""
    lines = text.expandtabs().splitlines()
    kept: list[str] = []
    position = 0
    while position < len(lines):
        match = _DIRECTIVE.match(lines[position])
        if not match:
            kept.append(lines[position])
            position += 1
            continue
        depth, name, rest = len(match[1]), match[2], match[3]
        end = position + 1
        while end < len(lines) and (
            not lines[end].strip() or _indent(lines[end]) > depth
        ):
            end += 1
        if name and not re.fullmatch(_DROPPED, name):
            body = lines[position + 1 : end]
            while body and re.match(r"\s+:[\w-]+:", body[0]):
                body.pop(0)
            kept.append("")
            if rest.strip() and not name.startswith(("code", "source")):
                kept.append(match[1] + rest.strip())
            kept.extend(
                textwrap.indent(textwrap.dedent("\n".join(body)), match[1]).splitlines()
            )
            kept.append("")
        position = end
    return "\n".join(kept)


def directive_text(text: str, name: str) -> str:
    """The words of the first unindented directive of that name; or nothing."""
    lines = text.expandtabs().splitlines()
    for position, line in enumerate(lines):
        match = _DIRECTIVE.match(line)
        if match and match[2] == name and not match[1]:
            words = [match[3]]
            for further in lines[position + 1 :]:
                if further.strip() and not _indent(further):
                    break
                words.append(further)
            return plain_line("\n".join(word.strip() for word in words))
    return ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _role_text(content: str) -> str:
    titled = _TITLED.match(content)
    if titled and titled[1].strip():
        return titled[1].strip()
    target = titled[2] if titled else content
    if target.startswith("~"):
        return target[1:].rpartition(".")[2]
    return target.lstrip("!")


def _paragraph(text: str) -> str:
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    lines = [line for line in lines if not re.fullmatch(r"\s*[=+|-]{3}[=+| -]*", line)]
    lines = [re.sub(r"^(\s*)\|(?=\s)|\|$", r"\1", line) for line in lines]
    if all(re.fullmatch(r"\W*", line) for line in lines):
        return ""
    if _indent(lines[0]) or lines[0].startswith(">>>"):
        return textwrap.dedent("\n".join(lines)).strip()
    body = re.sub(r"::$", ":", inline("\n".join(lines)))
    if any(re.match(r"\s*(?:[*+-]|\d+[.)])\s", line) for line in lines):
        return textwrap.dedent(body).strip()
    return " ".join(body.split())
