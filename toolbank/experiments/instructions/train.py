"""Training an encoder on the tasks of instructions, with labels that are derived."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from toolbank.encoders.instructions.config import InstructionsTraining
from toolbank.encoders.instructions.data import read_instructions
from toolbank.encoders.instructions.metrics import cluster_figures
from toolbank.encoders.instructions.prompts import PROMPTS
from toolbank.encoders.instructions.rows import hold_back
from toolbank.encoders.instructions.tasks import Task, parse_task
from toolbank.encoders.instructions.training import train_on_instructions
from toolbank.encoders.locate import encoder_identity
from toolbank.encoders.model import save_model
from toolbank.encoders.sentence import SentenceConfig
from toolbank.experiments.instructions.embed import embed
from toolbank.experiments.result import Result
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, write_json
from toolbank.system.outputs import check_folder
from toolbank.training.config import TrainingContext

_CHECKPOINTS, _SETTINGS, _RECORD = "checkpoints", "settings.json", "result.json"
_HELD_SHARE, _HELD_LEAST = 0.1, 5


@dataclass(frozen=True)
class Settings:
    """What is trained, and on how much: `most` instructions, 0 for all."""

    model: str
    prompt: str
    training: InstructionsTraining
    seed: int
    most: int


def train_instructions(data: Path, out: Path, settings: Settings) -> Result:
    """Train an encoder, and leave it in `out`, from which a recipe's `encoder.model` reads it.

    A tenth of the tasks with five instructions or more are held back, with all that is of them,
    and clustered before and after. A training that was stopped goes on from its checkpoint.

    Raises:
        InputError: the data, the encoder or TextBlob is missing, or `out` holds something else.
    """
    instructions = read_instructions(data)[: settings.most or None]
    tasks = [parse_task(text).merged() for text in instructions]
    _check_out(out, settings, instructions)
    held = hold_back(tasks, _HELD_SHARE, _HELD_LEAST, settings.seed)
    chosen = [i for i, is_held in enumerate(held) if not is_held]
    left = [i for i, is_held in enumerate(held) if is_held]

    def measure(model: str) -> dict[str, float]:
        texts = [instructions[i] for i in left]
        vectors = embed(model, PROMPTS[settings.prompt], "mean", texts)
        labels = [tasks[i].label for i in left]
        return cluster_figures(vectors, labels, settings.seed)

    before = measure(settings.model) if len({tasks[i] for i in left}) > 1 else {}
    model, trained = train_on_instructions(
        settings.model,
        settings.training,
        [instructions[i] for i in chosen],
        [tasks[i] for i in chosen],
        PROMPTS[settings.prompt],
        TrainingContext(settings.seed, checkpoints=out / _CHECKPOINTS),
    )
    save_model(model, out)
    record = {
        "experiment": "instructions",
        "labels": "derived from the instructions by parts of speech",
        **_describe(settings),
        "instructions": len(chosen),
        "tasks": len({tasks[i] for i in chosen}),
        "rows": trained.examples,
        "steps": trained.steps,
        "held_back": {
            "instructions": len(left),
            "tasks": len({tasks[i] for i in left}),
            "before": before,
            "after": measure(str(out.resolve())) if before else {},
        },
    }
    result = Result(record, _tell(record, out, [tasks[i] for i in left]))
    result.write(out)
    shutil.rmtree(out / _CHECKPOINTS, ignore_errors=True)
    return result


def _describe(settings: Settings) -> dict[str, object]:
    return {
        "model": settings.model,
        "prompt": settings.prompt,
        "seed": settings.seed,
        "most": settings.most,
        "training": settings.training.model_dump(mode="json"),
    }


def _check_out(out: Path, settings: Settings, instructions: Sequence[str]) -> None:
    ours = (_RECORD, _SETTINGS)
    check_folder(
        out, "an encoder", lambda path: any((path / name).is_file() for name in ours)
    )
    read = sha256(json.dumps(instructions).encode()).hexdigest()
    given = {
        **_describe(settings),
        "weights": encoder_identity(SentenceConfig(model=settings.model)),
        "instructions_sha256": read,
    }
    file = out / _SETTINGS
    if (out / _CHECKPOINTS).is_dir() and file.is_file() and read_json(file) != given:
        raise InputError(
            f"{out}: a training with other settings, weights or data was stopped there, as "
            f"{file.name} says. Give the same to go on with it, or another folder."
        )
    out.mkdir(parents=True, exist_ok=True)
    write_json(file, given)


def _tell(record: dict[str, object], out: Path, held: Sequence[Task]) -> str:
    found: dict[str, dict[str, float]] = record["held_back"]  # type: ignore[assignment]
    lines = [
        f"{record['instructions']:,} instructions of {record['tasks']:,} tasks, whose labels are "
        "derived from them;",
        f"held back: {len(held):,} instructions of {len(set(held)):,} tasks",
    ]
    for when in ("before", "after"):
        cells = [f"{name} {100 * value:.2f}" for name, value in found[when].items()]
        lines.append(f"  {when:<6} {', '.join(cells)}")
    return "\n".join([*lines, f"in a recipe: encoder: {{model: ./{out.name}}}"])
