"""`toolbank planner train | evaluate | use`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from toolbank.commands.options import RunArgument, SetOption, echo

if TYPE_CHECKING:
    from toolbank.papers.planner.evaluate import Evaluated
    from toolbank.papers.planner.models import RunPlanner
    from toolbank.papers.planner.plans import PlanStepExample

Action = Literal["train", "evaluate", "use"]


def planner(
    action: Annotated[
        Action, typer.Argument(metavar="ACTION", help="train, evaluate, or use.")
    ],
    run: RunArgument,
    query: Annotated[
        str | None, typer.Argument(help="For use: a request, in your own words.")
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="For use: which setting; if not given, the first."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was found as JSON.")
    ] = False,
    settings: SetOption = None,
) -> None:
    """Plan requests step by step: train planners on a run's bank, evaluate them, use one.

    The run's recipe has a section `planner`; `evaluate` writes planner.json.
    """
    from toolbank.papers.planner.models import open_planner
    from toolbank.run.assets import using_assets
    from toolbank.system.errors import InputError

    if (query is None) == (action == "use"):
        raise InputError(
            f"planner {action}: "
            + (
                "which request? toolbank planner use RUN QUERY"
                if action == "use"
                else "takes no request."
            )
        )
    if setting is not None and action != "use":
        raise InputError(
            f"--setting {setting}: for `planner use`; {action} takes all settings of the recipe."
        )
    opened = open_planner(run, settings or [])
    with opened.folder.locked(), using_assets(opened.file, opened.folder):
        if action == "train":
            _train(opened)
        elif action == "evaluate":
            _evaluate(opened, as_json=as_json)
        else:
            _use(opened, str(query), setting, as_json=as_json)


def _train(planner: RunPlanner) -> None:
    from toolbank.system.errors import InputError

    if planner.config.ask:
        raise InputError(
            "planner.ask: the model is asked as it is, and nothing is trained. Go on with: "
            f"toolbank planner evaluate {planner.folder.path}"
        )
    for line in planner.train():
        echo(line)


def _evaluate(planner: RunPlanner, *, as_json: bool) -> None:
    from toolbank.papers.planner.evaluate import format_planner
    from toolbank.system.files import json_text, write_json, write_text

    _prepare_engine(planner)
    planner.check_models()
    examples, left_out = planner.examples("test")
    folder = planner.folder
    found = {}
    for number, evaluated in _evaluate_settings(planner, examples):
        found[number] = evaluated.figures
        figures = [found[number] for number in sorted(found)]
        rows = "".join(
            f"{json.dumps(row, ensure_ascii=False)}\n" for row in evaluated.said
        )
        write_text(folder.planner / f"said-{number}.jsonl", rows)
        content = {
            "plans": len({example.plan.id for example in examples}),
            "lines_without_tool": left_out,
            "models": planner.describe_models(),
            "settings": figures,
        }
        write_json(folder.planner_figures, content)
    echo(json_text(content) if as_json else format_planner(figures))
    if not as_json:
        echo(
            f"\n{content['plans']:,} plans, {len(examples):,} steps; {left_out:,} lines name no "
            f"tool and are left out. Percent, but for ROUGE-Lsum x 100; 95 % intervals. "
            f"Wrote {folder.planner_figures}"
        )


def _evaluate_settings(
    planner: RunPlanner, examples: Sequence[PlanStepExample]
) -> Iterator[tuple[int, Evaluated]]:
    """The settings by their numbers, those of one model together: it alone is in memory."""
    from toolbank.papers.planner.evaluate import evaluate_setting

    numbered = list(enumerate(planner.config.settings, start=1))
    for model in dict.fromkeys(setting.model for _, setting in numbered):
        of_model = [(n, setting) for n, setting in numbered if setting.model == model]
        speaker = planner.speaker(of_model[0][1])
        for number, setting in of_model:
            evaluated = evaluate_setting(
                setting, examples, planner.candidates, planner.retrievers, speaker
            )
            yield number, evaluated
        # Before the next one is read.
        del speaker


def _use(planner: RunPlanner, query: str, name: str | None, *, as_json: bool) -> None:
    from toolbank.papers.planner.config import GOLD, RANDOM
    from toolbank.papers.planner.evaluate import plan_request
    from toolbank.papers.planner.plans import read_step
    from toolbank.system.errors import InputError

    # Of a new request nobody knows the plan's own tools.
    usable = {
        one.label: one
        for one in planner.config.settings
        if one.test not in (GOLD, RANDOM)
    }
    if not usable or (name and name not in usable):
        said = ", ".join(usable) or "none"
        raise InputError(
            f"--setting {name or ''}: a request can be planned by settings whose candidates "
            f"a retriever finds: {said}."
        )
    setting = usable[name] if name else next(iter(usable.values()))
    _prepare_engine(planner)
    index = planner.bank.index
    steps = plan_request(
        query,
        setting,
        planner.candidates,
        planner.retrievers.get(setting.test),
        planner.speaker(setting),
        planner.config.steps,
        lambda text: read_step(text, index),
    )
    if as_json:
        echo(json.dumps([{"tool": s.tool, "text": s.text} for s in steps], indent=2))
    else:
        for number, step in enumerate(steps, start=1):
            echo(f"{number}. {step.text}")
        if not steps:
            echo(
                f"No step that names a tool, by the setting {setting.label}. How good it is says: "
                f"toolbank planner evaluate {planner.folder.path}"
            )


def _prepare_engine(planner: RunPlanner) -> None:
    """Refuse an engine that can't be used, or that a key would be sent to unasked."""
    from toolbank.llm.engines import find_engine
    from toolbank.system.consent import require_consent

    if asks := planner.config.ask:
        kind = find_engine(asks)
        kind.check(asks)
        kind.check_access(asks)
        require_consent(kind.sends(asks), asks.section)
