"""What strangers' notebooks try: a case for each, with the statuses that its three exercises must get.

Names with a prefix such as `res_` are those of the catalogue in which such attacks are collected; `BEYOND` are ours.
Every notebook begins with a cell that defines the canaries: SECRET and OUTSIDE (files), FOLDER (of the submissions),
GRADEBOOK, NEIGHBOUR (another submission), HOME (with keys in it), PORT, ABSTRACT, SOCKETS and DATAGRAMS (listeners),
GRADER (its pid), PACKAGE, AMONG_PYTHON (a folder in the environment, with a submission and a gradebook).
"""

from __future__ import annotations

from tests.sandbox.outside.attacks_on_marks import EVIL_OBJECT, INTROSPECTION, MONKEYPATCH, STATE
from tests.sandbox.outside.attacks_on_the_box import (
    BASELINE,
    FILESYSTEM,
    KERNEL_PROTOCOL,
    NETWORK,
    PROCESS,
    RESOURCE,
    SECRETS,
)
from tests.sandbox.outside.further_attacks import BEYOND

CASES = BASELINE | RESOURCE | PROCESS | FILESYSTEM | NETWORK | SECRETS | KERNEL_PROTOCOL | MONKEYPATCH | EVIL_OBJECT
CASES |= INTROSPECTION | STATE | BEYOND
