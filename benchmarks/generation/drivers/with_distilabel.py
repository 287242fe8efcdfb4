"""distilabel: a pipeline of two text generations, each in a process of its own; its cache in the folder.

    python with_distilabel.py URL ROWS.jsonl IN_FLIGHT

A step sends a batch and waits for the whole of it; half of the calls in flight are for each step.
"""

import json
import os
import sys
from pathlib import Path

os.environ["DISTILABEL_CACHE_DIR"] = str(Path.cwd() / "distilabel")

from distilabel.models import OpenAILLM
from distilabel.pipeline import Pipeline
from distilabel.steps import LoadDataFromDicts
from distilabel.steps.tasks import TextGeneration

_LONGEST_ANSWER = 4096


def main(url: str, rows_path: str, in_flight: int) -> None:
    rows = list(map(json.loads, Path(rows_path).read_text().splitlines()))
    batch = in_flight // 2

    def generation(name: str, template: str, columns: list[str], out: str):  # type: ignore[no-untyped-def]
        return TextGeneration(
            name=name,
            llm=OpenAILLM(
                model="mock",
                base_url=url,
                api_key="none",
                generation_kwargs={"max_new_tokens": _LONGEST_ANSWER},
            ),
            template=template,
            columns=columns,
            output_mappings={"generation": out, "model_name": f"{name}_model"},
            input_batch_size=batch,
        )

    with Pipeline(name="speed") as pipeline:
        load = LoadDataFromDicts(data=rows, batch_size=batch)
        write = generation("write", "{{ write }}", ["write"], "draft")
        polish = generation(
            "polish",
            "{{ polish_before }}{{ draft }}{{ polish_after }}",
            ["polish_before", "draft", "polish_after"],
            "query",
        )
        load >> write >> polish
    made = pipeline.run()
    assert len(made["default"]["train"]) == len(rows)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
