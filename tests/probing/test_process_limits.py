from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from graders.probing.process_limits import describe_low_limit
from graders.wire.limits import MIB, Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are those of Linux")

LIMITED = """\
import resource
from graders.probing.process_limits import describe_low_limit
from graders.wire.limits import MIB, Limits
resource.setrlimit(resource.{what}, ({most}, {most}))
print(describe_low_limit(Limits()))
"""


@pytest.mark.parametrize(
    ("what", "most", "told"),
    [
        ("RLIMIT_NOFILE", 60, "only 60 open files. Remedy: `ulimit -n 128`"),
        ("RLIMIT_FSIZE", 1 << 20, "only 1 MiB per file. Remedy: `ulimit -f unlimited`"),
        ("RLIMIT_AS", 1500 << 20, "only 1500 MiB of memory. Remedy: `ulimit -v unlimited`"),
        ("RLIMIT_NOFILE", 128, ""),
    ],
)
def test_limits_around_us_that_are_below_what_notebooks_are_promised(what: str, most: int, told: str) -> None:
    code = LIMITED.format(what=what, most=most)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == told


def test_here_nothing_is_cut_short() -> None:
    assert describe_low_limit(Limits()) == ""


ADDRESS_SPACE = """\
import os, resource
from graders.probing.process_limits import address_space_bytes
print(address_space_bytes() - int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE"))
print(resource.getrlimit(resource.RLIMIT_AS))
"""


def test_the_address_space_is_found_without_proc_and_stays_as_it_was() -> None:
    done = subprocess.run([sys.executable, "-c", ADDRESS_SPACE], capture_output=True, text=True, check=True)
    difference, limits = done.stdout.splitlines()
    assert abs(int(difference)) <= 4 * MIB
    assert limits == str(resource.getrlimit(resource.RLIMIT_AS))
