"""Describe a publication as Croissant 1.0 metadata, which `mlcroissant` and dataset search read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from toolbank.bank.records import Split
from toolbank.datasets.published import DATA

_TERMS = (
    *("citeAs", "column", "extract", "field", "fileObject", "fileProperty", "fileSet"),
    *("format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField"),
    *("path", "recordSet", "references", "regex", "repeated", "replace", "separator"),
    *("source", "subField", "transform"),
)
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
_TYPES = {
    "string": "sc:Text",
    "bool": "sc:Boolean",
    "int64": "sc:Integer",
    "double": "sc:Float",
}


def describe_dataset(
    folder: Path, configs: Iterable[str], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Describe the parquet files in a publication's folder as JSON-LD.

    `configs` are those that have rows, in addition to the queries. `about` has further properties
    of the dataset, such as its name and license. Columns of nested objects are not described.
    """
    parts: dict[str, Sequence[str]] = {"queries": get_args(Split)}
    parts |= {name: (name,) for name in configs}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        **about,
        "distribution": [
            {
                "@type": "cr:FileSet",
                "@id": f"{name}-files",
                "name": f"{name}-files",
                "encodingFormat": "application/x-parquet",
                "includes": [f"{DATA}/{file}-*.parquet" for file in files],
            }
            for name, files in parts.items()
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": name,
                "name": name,
                "field": list(_list_fields(folder, name, files[0])),
            }
            for name, files in parts.items()
        ],
    }


def _list_fields(folder: Path, name: str, file: str) -> Iterator[dict[str, Any]]:
    from pyarrow import parquet

    shard = min((folder / DATA).glob(f"{file}-*.parquet"))
    for column in parquet.read_schema(shard):
        kind, is_list = column.type, hasattr(column.type, "value_type")
        if data_type := _TYPES.get(str(kind.value_type if is_list else kind)):
            yield {
                "@type": "cr:Field",
                "@id": f"{name}/{column.name}",
                "name": column.name,
                "dataType": data_type,
                **({"repeated": True} if is_list else {}),
                "source": {
                    "fileSet": {"@id": f"{name}-files"},
                    "extract": {"column": column.name},
                },
            }
