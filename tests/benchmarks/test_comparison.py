import math
import os
import sys

from tests.benchmarks.comparison import (
    HOOKWORK,
    KEPT,
    LIMIT,
    NBCLIENT,
    NBGRADER,
    NOT_DRAWN,
    OTTER,
    Measured,
    Table,
    Target,
)
from tests.benchmarks.measuring import run


def made(method, submissions, workers, *seconds):
    return [Measured(method, submissions, workers, value, 2 * value, number) for number, value in enumerate(seconds)]


def test_a_row_has_the_medians_for_one_notebook_and_the_range():
    row = Table(made(NBCLIENT, 10, 1, 30, 20, 70)).rows[NBCLIENT, 10, 1]
    assert (row.seconds, row.fastest, row.slowest, row.cpu, row.rounds) == (3, 2, 7, 6, 3)


def test_a_ratio_is_the_median_of_the_rounds_that_have_both():
    table = Table([*made(NBGRADER, 10, 1, 30, 80, 10), *made(HOOKWORK, 10, 2, 10, 20), *made(OTTER, 10, 1, 10, 20, 40)])
    assert table.ratio((NBGRADER, 10, 1), (HOOKWORK, 10, 2)) == 3.5
    assert table.ratio((NBGRADER, 10, 1), (OTTER, 10, 1)) == 3
    assert table.ratio((NBGRADER, 10, 1), (OTTER, 20, 1)) is None


def test_targets_compare_what_was_measured_with_what_was_asked_for():
    seconds = {(HOOKWORK, 2): 10, (KEPT, 2): 0.5, (LIMIT, 2): 8, (NOT_DRAWN, 2): 4,
               (NBGRADER, 1): 120, (OTTER, 1): 90, (OTTER, 2): 50}  # fmt: skip
    table = Table([run for (method, workers), took in seconds.items() for run in made(method, 20, workers, took)])
    assert [(target.what.split(",")[0], target.value, target.met) for target in table.targets()] == [
        ("times nbgrader's throughput", 12, True),
        ("times otter's throughput", 5, False),
        ("of the limit", 1.25, True),
        ("of the limit", 2.5, False),
        ("seconds to mark 20 again", 0.5, True),
    ]


def test_a_peer_is_compared_at_the_largest_class_that_it_marked():
    seconds = {(HOOKWORK, 20, 2): 10, (HOOKWORK, 40, 2): 16, (LIMIT, 40, 2): 8,
               (NBGRADER, 20, 1): 100, (NBGRADER, 40, 1): 240, (OTTER, 20, 1): 110}  # fmt: skip
    table = Table([run for which, took in seconds.items() for run in made(*which, took)])
    found = {target.what: target.value for target in table.targets()}
    assert math.isclose(found["times nbgrader's throughput, 40 submissions, with 2 workers"], 15)
    assert math.isclose(found["times otter's throughput, 20 submissions, with 2 workers"], 11)


def test_flat_means_that_the_last_submissions_cost_what_the_first_did():
    table = Table([*made(HOOKWORK, 5, 1, 7), *made(HOOKWORK, 40, 1, 42), *made(HOOKWORK, 200, 1, 202)])
    cpu, flat = table.targets()
    assert math.isclose(cpu.value, 2)
    assert math.isclose(flat.value, 1)
    assert flat.met


def test_lines_have_a_ratio_to_the_limit_where_there_is_one():
    lines = Table([*made(HOOKWORK, 5, 1, 10), *made(LIMIT, 5, 1, 8)]).lines({(LIMIT, 1): 451.2})
    assert Table(made(NBCLIENT, 5, 1, 20)).targets() == []  # and no target
    assert lines[2].split() == ["the", "limit", "5", "1", "1", "1.600", "1.60–1.60", "3.20", "1.00", "451"]
    assert lines[3].split() == ["hookwork", "5", "1", "1", "2.000", "2.00–2.00", "4.00", "1.25", "–"]


def test_a_target_says_whether_it_was_met():
    assert str(Target("of the limit", 1.25, 1.2)) == "MISSED  of the limit: 1.25 (at most 1.2)"
    assert str(Target("times otter", 11.0, 10, at_least=True)) == "met     times otter: 11 (at least 10)"


def test_processor_time_is_counted_of_processes_that_are_killed(tmp_path):
    burn = "import time\nwhile time.process_time() < 0.5: pass\n"
    program = f"import os, signal\nif os.fork() == 0:\n    exec({burn!r})\n    os.kill(os.getpid(), 9)\nos.wait()"
    used = run([sys.executable, "-c", program], tmp_path, dict(os.environ), tmp_path / "log")
    assert 0.5 <= used.cpu < 2
