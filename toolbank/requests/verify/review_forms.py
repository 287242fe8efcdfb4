"""Write and read the sheets on which people grade: CSV, and the forms of Argilla and Label Studio."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from toolbank.datasets.rows import read_rows
from toolbank.system.errors import InputError
from toolbank.system.files import (
    atomic_path,
    read_json,
    read_text,
    write_json,
    write_text,
)
from toolbank.system.text import quote_formula, unquote_formula

SheetForm = Literal["csv", "argilla", "label-studio"]

JUDGEMENTS = ("needed", "alternative", "no", "aside")

_ANSWERS = ("judgement", "alternative_for", "note")
_SUBJECT = ("request_id", "request", "tool", "summary")
_NOW = ("grade_now", "alternative_for_now")

TABLES = (".csv", ".tsv")
"""The endings of tables."""

RECORDS = "records.json"
"""The file of an Argilla folder that has the responses."""

_FORMS = Path(__file__).parent / "forms"
_Said = tuple[str, dict[str, str]]


class SheetRow(NamedTuple):
    """A tool of a request to judge, and its grade now ("" if that is hidden or unknown)."""

    request_id: str
    request: str
    tool: str
    summary: str
    grade_now: str = ""
    alternative_for_now: str = ""


class SheetAnswer(NamedTuple):
    """What a person says of a tool of a request; "" where nothing is said."""

    place: str
    person: str
    request_id: str
    request: str
    tool: str
    judgement: str
    alternative_for: str
    note: str


def write_sheet(
    path: Path, rows: Sequence[SheetRow], form: SheetForm, name: str
) -> list[Path]:
    """Write a sheet of this name; returns its files. Nobody's judgements are overwritten.

    csv: a table with a row per tool; blank judgements of a judged request mean `no`. argilla: a
    folder that `argilla.Dataset.from_disk` reads. label-studio: a JSON list of tasks, and a labelling
    configuration next to it. If the rows have grades now, they contain them.

    Raises:
        InputError: there is such a file already.
    """
    config = path.with_suffix(".xml")
    files = [path, config] if form == "label-studio" else [path]
    if taken := [file for file in files if file.exists()]:
        raise InputError(f"{taken[0]}: exists already. Give another --out.")
    if form == "csv":
        _write_csv(path, rows)
    elif form == "label-studio":
        write_json(path, [_make_task(row) for row in rows])
        write_text(config, read_text(_FORMS / "label_studio.xml"))
    else:
        (path / ".argilla").mkdir(parents=True)
        settings = read_text(_FORMS / "argilla.json")
        write_text(path / ".argilla" / "settings.json", settings)
        write_json(path / ".argilla" / "dataset.json", {"name": name})
        write_json(path / RECORDS, [_make_record(row) for row in rows])
    return files


def read_sheet(path: Path) -> Iterator[SheetAnswer]:
    """Read the judgements of a sheet in any form, also partly filled; blanks are read, too.

    The person is that of the column `annotator` or of the form, or else the name of the file.

    Raises:
        InputError: the file can't be read, or has another form.
    """
    file = path / RECORDS if path.is_dir() else path
    if not path.is_dir() and path.suffix not in (*TABLES, ".json"):
        raise InputError(
            f"{path}: a sheet ends in .csv, .tsv or .json. Rename the file."
        )
    if path.suffix in TABLES:
        if not (judged := list(_read_csv(path))):
            raise _other_form(path)
        yield from judged
        return
    items = read_json(file)
    if not isinstance(items, list) or not items:
        raise _other_form(file)
    for number, item in enumerate(items, 1):
        place = f"{file}, item {number}"
        try:
            subject = item["fields"] if "fields" in item else item["data"]
            keys = [subject[key] for key in ("request_id", "request", "tool")]
            if not all(isinstance(key, str) for key in keys):
                raise TypeError("a field is no text")
            read = _read_argilla if "fields" in item else _read_label_studio
            said = read(item, path.stem)
        except (AttributeError, LookupError, TypeError) as error:
            raise _other_form(place) from error
        for person, answers in said:
            texts = _clean(answers.get(key, "") for key in _ANSWERS)
            yield SheetAnswer(place, person, *keys, *texts)


def _clean(answers: Iterable[str]) -> list[str]:
    judgement, *others = (one.strip() for one in answers)
    return [judgement.casefold(), *others]


def _other_form(place: object) -> InputError:
    return InputError(
        f"{place}: not a sheet of `toolbank review export`. Give its CSV file, the JSON export of "
        "Label Studio, or the folder or JSON file that Argilla wrote."
    )


def _write_csv(path: Path, rows: Sequence[SheetRow]) -> None:
    now = _NOW if any(row.grade_now for row in rows) else ()
    names = (*_SUBJECT, *now, *_ANSWERS, "annotator")
    # Spreadsheets take a file for UTF-8 by its first bytes.
    with (
        atomic_path(path) as temporary,
        temporary.open("w", encoding="utf-8-sig", newline="") as file,
    ):
        table = csv.DictWriter(file, names, restval="", extrasaction="ignore")
        table.writeheader()
        for row in rows:
            table.writerow(
                {key: quote_formula(cell) for key, cell in row._asdict().items()}
            )


def _read_csv(path: Path) -> Iterator[SheetAnswer]:
    for place, row in read_rows(path):
        if missing := [
            key for key in ("request_id", "tool", *_ANSWERS) if key not in row
        ]:
            raise InputError(
                f"{place}: no column {missing[0]!r}. Export the sheet again with `toolbank review "
                "export`, and keep its columns."
            )
        cells = {key: unquote_formula(cell) for key, cell in row.items()}
        answers = _clean(cells[key] for key in _ANSWERS)
        person = cells.get("annotator", "").strip() or path.stem
        yield SheetAnswer(
            place,
            person,
            cells["request_id"],
            cells.get("request", ""),
            cells["tool"].strip(),
            *answers,
        )


def _answers_now(row: SheetRow) -> dict[str, str]:
    now = {"judgement": row.grade_now, "alternative_for": row.alternative_for_now}
    return {key: value for key, value in now.items() if value}


def _make_record(row: SheetRow) -> dict[str, Any]:
    return {
        "id": f"{row.request_id} {row.tool}",
        "fields": {key: getattr(row, key) for key in _SUBJECT},
        "metadata": {},
        "suggestions": {
            key: {"value": value, "score": None, "agent": "toolbank"}
            for key, value in _answers_now(row).items()
        },
        "responses": {},
        "vectors": {},
    }


def _read_argilla(item: Mapping[str, Any], name: str) -> list[_Said]:
    said: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for key in _ANSWERS:
        for one in (item.get("responses") or {}).get(key, ()):
            said[str(one.get("user_id") or name)][key] = str(one["value"] or "")
    return list(said.items())


def _make_task(row: SheetRow) -> dict[str, Any]:
    kinds = {
        "judgement": ("choices", "choices"),
        "alternative_for": ("textarea", "text"),
    }
    result = [
        {"from_name": key, "to_name": "tool", "type": kind, "value": {content: [value]}}
        for key, value in _answers_now(row).items()
        for kind, content in (kinds[key],)
    ]
    predictions = [{"model_version": "toolbank", "result": result}] if result else []
    return {
        "data": {key: getattr(row, key) for key in _SUBJECT},
        "predictions": predictions,
    }


def _read_label_studio(item: Mapping[str, Any], name: str) -> list[_Said]:
    found = []
    for annotation in item.get("annotations") or ():
        if annotation.get("was_cancelled"):
            continue
        by = annotation.get("completed_by") or name
        if isinstance(by, dict):
            by = by.get("email") or by.get("id") or name
        said = {}
        for one in annotation["result"]:
            value = one["value"].get("choices") or one["value"].get("text") or ""
            said[one["from_name"]] = value if isinstance(value, str) else str(value[0])
        found.append((f"user {by}" if isinstance(by, int) else str(by), said))
    return found
