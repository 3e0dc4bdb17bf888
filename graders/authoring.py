"""The author's face: all of Hookwork that an exercise imports. Nets come from `graders.nets`, as in notebooks.

A probe may use what is imported here from `graders.box` and `graders.wire`; nothing else is there beside the learner's
code.
"""

from __future__ import annotations

# Instruments of probes: what a caller may have and do, what became of it, and models that a draw describes as data.
from graders.box.callers_hooks import FACTOR, CallersHooks, times
from graders.box.failures import Failure, every_kind
from graders.box.model_specs import module_names, resolve
from graders.box.models import Calling, Meanwhile, Returning, fill_grads, freeze_part, in_mode, packed, tie, unpacked
from graders.box.passes import abort, aborting, grad_mode, gradients, own_grads
from graders.box.probing import (
    Boom,
    all_removed,
    expecting_boom,
    module_hooks,
    recording_calls,
    removed,
    shares_storage,
    snapshot,
    tensor_hooks,
)
from graders.box.tensors import fill_grad, laid_out, prepared
from graders.box.witness import Witness

# The circumstances that a contract covers.
from graders.core.circumstances import ALL, Circumstances, every_pair

# Conditions that contracts share, and their mistakes.
from graders.core.conditions import (
    HOOK_MISTAKES,
    all_came_through,
    came_through,
    changes,
    model_unchanged,
    no_hook_left,
    nothing_changed,
    unwanted,
)

# What an exercise is, and judging what a probe saw.
from graders.core.difference import Kind
from graders.core.exercise import SILENT, Mistake
from graders.core.expect import Seen, apart, close, exactly, expect, paired, refuse
from graders.core.mistakes import NO_GRADIENT_TO_HOOK
from graders.core.shown import MISSING
from graders.differential.exercise import exercise
from graders.differential.freedoms import a_hook_for_all, no_graph_for_zeros
from graders.wire.data import Array
from graders.wire.draws import Rng, beyond_float32
