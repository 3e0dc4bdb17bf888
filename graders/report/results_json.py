"""Write a batch as `results.json`, which `results.schema.json` describes, and read it back."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fastjsonschema

from graders.core.difference import Difference, Kind, Timelines
from graders.core.results import (
    Batch,
    CheckResult,
    ExerciseResult,
    HandMark,
    Status,
    SubmissionResult,
    SubmissionStatus,
)

SCHEMA_VERSION = 1
SCHEMA_FILE = Path(__file__).with_name("results.schema.json")


def batch_to_data(batch: Batch) -> dict[str, Any]:
    """The batch as JSON values that follow the schema. Empty optional parts are left out."""
    # Through JSON and back: enums become their values, tuples become lists.
    data: dict[str, Any] = json.loads(json.dumps({"schema": SCHEMA_VERSION, **asdict(batch)}))
    for part in data["submissions"]:
        _leave_out_empty(part, "late_note", "missing_modules", "group", "by_hand")
    exercises = [exercise for part in data["submissions"] for exercise in part["exercises"]]
    for exercise in exercises:
        _leave_out_empty(exercise, "printed", "program", "note", "by_hand", "second_mistake", "second_message")
    for check in (check for exercise in exercises for check in exercise["checks"]):
        _leave_out_empty(check, "follows")
        found = check.pop("difference")
        if found:
            check["difference"] = {name: value for name, value in found.items() if value}
    validate_results(data)
    return data


def _leave_out_empty(part: dict[str, Any], *names: str) -> None:
    for name in names:
        if not part[name]:
            del part[name]


def submission_to_data(submission: SubmissionResult) -> dict[str, Any]:
    """One submission as JSON values, with every part, even if empty."""
    data: dict[str, Any] = json.loads(json.dumps(asdict(submission)))
    return data


def validate_results(data: dict[str, Any]) -> None:
    """Raise `ValueError` if `data` does not follow the schema."""
    try:
        _schema_validator()(data)
    except fastjsonschema.JsonSchemaException as error:
        raise ValueError(str(error)) from None


@functools.cache
def _schema_validator() -> Callable[[Any], Any]:
    # JupyterLab installs checkers of formats for jsonschema, which then takes longer to import than torch.
    found: Callable[[Any], Any] = fastjsonschema.compile(json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    return found


def render(batch: Batch) -> str:
    """The text of `results.json`."""
    return json.dumps(batch_to_data(batch), indent=1, ensure_ascii=False) + "\n"


def submission_from_data(data: dict[str, Any]) -> SubmissionResult:
    """The submission in data from `batch_to_data` or `submission_to_data`."""
    exercises = tuple(
        ExerciseResult(
            **{
                **exercise,
                "status": Status(exercise["status"]),
                "checks": tuple(map(_check_from_data, exercise["checks"])),
                "by_hand": _hand_mark_from_data(exercise),
            }
        )
        for exercise in data["exercises"]
    )
    return SubmissionResult(
        **{
            **data,
            "status": SubmissionStatus(data["status"]),
            "exercises": exercises,
            "superseded": tuple(data.get("superseded", ())),
            "missing_modules": tuple(data.get("missing_modules", ())),
            "by_hand": _hand_mark_from_data(data),
        }
    )


def _hand_mark_from_data(part: dict[str, Any]) -> HandMark | None:
    found = part.get("by_hand")
    return HandMark(**found) if found else None


def _check_from_data(check: dict[str, Any]) -> CheckResult:
    """A check. In results of earlier versions, only its message says why it failed."""
    found = check.get("difference")
    if found is None:
        return CheckResult(**check)
    events = found.get("timelines")
    timelines = events and Timelines(**{**events, "expected": tuple(events["expected"]), "seen": tuple(events["seen"])})
    difference = Difference(**{**found, "kind": Kind(found["kind"]), "timelines": timelines})
    return CheckResult(**{**check, "difference": difference})


def parse(raw: bytes) -> Batch:
    """The batch in a file that `render` wrote. Raises `ValueError` for anything else."""
    try:
        return batch_from_data(json.loads(raw, parse_constant=_reject_constant))
    except RecursionError:
        raise ValueError("its lists and objects are nested too deeply") from None


def _reject_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number in JSON")


def batch_from_data(data: dict[str, Any]) -> Batch:
    """The batch in data from `batch_to_data`. Raises `ValueError` for anything else."""
    validate_results(data)
    submissions = tuple(map(submission_from_data, data["submissions"]))
    return Batch(seed=data["seed"], torch=data["torch"], created=data["created"], submissions=submissions)
