"""`results.json`: a batch as JSON, described by `results.schema.json`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from graders.core.results import (
    Batch,
    CheckResult,
    ExerciseResult,
    Status,
    SubmissionResult,
    SubmissionStatus,
)

SCHEMA_VERSION = 1
SCHEMA_FILE = Path(__file__).with_name("results.schema.json")


def to_data(batch: Batch) -> dict[str, Any]:
    """The batch as JSON values, valid under the schema."""
    # Through JSON and back: enums become their values, tuples become lists.
    data: dict[str, Any] = json.loads(json.dumps({"schema": SCHEMA_VERSION, **asdict(batch)}))
    validate(data)
    return data


def validate(data: dict[str, Any]) -> None:
    """Raises `jsonschema.ValidationError` when `data` does not follow the schema."""
    import jsonschema  # its checkers of formats take longer to import than torch, where they are installed

    jsonschema.validate(data, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))


def render(batch: Batch) -> str:
    """The text of `results.json`."""
    return json.dumps(to_data(batch), indent=1, ensure_ascii=False) + "\n"


def submission_from_data(data: dict[str, Any]) -> SubmissionResult:
    """The submission that `to_data` wrote."""
    exercises = tuple(
        ExerciseResult(**{
            **exercise,
            "status": Status(exercise["status"]),
            "checks": tuple(CheckResult(**check) for check in exercise["checks"]),
        })
        for exercise in data["exercises"]
    )  # fmt: skip
    return SubmissionResult(**{
        **data,
        "status": SubmissionStatus(data["status"]),
        "exercises": exercises,
        "superseded": tuple(data.get("superseded", ())),
    })  # fmt: skip


def batch_from_data(data: dict[str, Any]) -> Batch:
    """The batch that `to_data` wrote. Raises `jsonschema.ValidationError` for anything else."""
    validate(data)
    submissions = tuple(map(submission_from_data, data["submissions"]))
    return Batch(data["seed"], data["torch"], data["created"], submissions)
