"""The author's face: all of Hookwork that an exercise imports. Nets come from `graders.nets`, as in notebooks.

A probe may use what is imported here from `graders.box` and `graders.wire`; nothing else is there beside the learner's
code.
"""

from __future__ import annotations

# Instruments of probes. The first two read models that a draw describes as data.
from graders.box.model_specs import module_names, resolve
from graders.box.probing import (
    Boom,
    expecting_boom,
    module_hooks,
    recording_calls,
    removed,
    shares_storage,
    snapshot,
    tensor_hooks,
)

# Conditions that contracts share, and their mistakes.
from graders.core.conditions import HOOK_MISTAKES, model_unchanged, no_hook_left

# What an exercise is.
from graders.core.draws import Rng
from graders.core.exercise import Mistake, exercise

# Judging what a probe saw.
from graders.core.expect import MISSING, Mismatch, Seen, apart, close, expect, kind
from graders.wire.data import Array
