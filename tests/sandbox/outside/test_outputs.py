"""What nobody looks at is not drawn, and decides over no mark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graders.core.transcript import read_transcript
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.warm_process import WarmProcess
from graders.wire.frames import MAX_OUTPUT, MAX_OUTPUTS
from graders.wire.limits import Limits

DRAWN = """
class Picture:
    drawn = 0
    def _repr_png_(self):
        Picture.drawn += 1
        return b"a picture"
display(Picture())
"""
FIGURE = """
from graders.figures import card, show
figure, axes = card(2, 1)
axes.figure.canvas.mpl_connect("draw_event", lambda event: setattr(Picture, "drawn", Picture.drawn + 1))
show(figure, "a card")
"""
PYPLOT = """
import matplotlib.pyplot as plt
plt.plot([1, 2])
plt.gcf().canvas.mpl_connect("draw_event", lambda event: setattr(Picture, "drawn", Picture.drawn + 1))
plt.show()
"""


@pytest.mark.parametrize(
    ("keep", "started"),
    [(False, False), (True, False), (False, True)],
    ids=["marks alone", "outputs kept", "marks alone, started"],
)
def test_pictures_are_drawn_for_those_who_keep_outputs(
    box_modules: Path, warm: WarmProcess, keep: bool, started: bool
) -> None:
    cells = [DRAWN, FIGURE, PYPLOT, f"assert (Picture.drawn >= 3) is {keep}, Picture.drawn", "print(Picture.drawn)"]
    runner = BoxRunner(box_modules, warm=None if started else warm, keep_outputs=keep)
    frames = runner.run(cells, []).frames
    assert [(cell.status, cell.message) for cell in read_transcript(frames).cells] == [("ok", "")] * len(cells)
    shown = [(frame.head["cell"], json.loads(frame.body)) for frame in frames if frame.type == "output"]
    assert [cell for cell, _ in shown] == [0, 1, 2, 4] * keep
    assert all("image/png" in output["data"] for _, output in shown[:3])


@pytest.mark.parametrize("keep", [False, True], ids=["marks alone", "outputs kept"])
def test_a_drawing_that_raises_fails_its_cell_alike(box_modules: Path, warm: WarmProcess, keep: bool) -> None:
    bad = "import matplotlib.pyplot as plt\nfigure = plt.figure()\nfigure.text(0, 0, r'$\\bad{$')\n"
    cells = [bad + "figure.savefig('x.png')", bad + "figure.canvas.draw()", bad + "plt.show()"]
    run = read_transcript(BoxRunner(box_modules, warm=warm, keep_outputs=keep).run(cells, []).frames)
    assert [cell.status for cell in run.cells] == ["raised", "raised", "ok"]


@pytest.mark.parametrize("keep", [False, True], ids=["marks alone", "outputs kept"])
def test_pictures_count_for_an_eighth_of_what_else_is_shown(box_modules: Path, warm: WarmProcess, keep: bool) -> None:
    limits = Limits(output=40_000)
    pictures = "import matplotlib.pyplot as plt\nfor _ in range(5):\n    plt.plot([1, 2])\n    plt.show()"
    endless = "from IPython.display import publish_display_data\nwhile True:\n"
    endless += "    publish_display_data({'image/png': 'x' * 10_000})"
    page = "from IPython.display import HTML\nHTML('x' * 50_000)"
    cells = [pictures, "print('x' * 50_000)", page, endless]
    run = read_transcript(BoxRunner(box_modules, limits=limits, warm=warm, keep_outputs=keep).run(cells, []).frames)
    assert [cell.status for cell in run.cells] == ["ok", "over-limit", "over-limit", "over-limit"]


def test_of_many_outputs_the_first_are_kept(box_modules: Path, warm: WarmProcess) -> None:
    # Where a cell shows more than a thousand things faster than they are read, Jupyter leaves some out.
    cells = ["for number in range(500):\n    display(number)"] * 5
    transcript = BoxRunner(box_modules, warm=warm, keep_outputs=True).run(cells, [])
    shown = [json.loads(frame.body) for frame in transcript.frames if frame.type == "output"]
    assert (transcript.ended, len(shown)) == ("finished", MAX_OUTPUTS)
    assert [int(output["data"]["text/plain"]) for output in shown] == [*range(500)] * (MAX_OUTPUTS // 500)


def test_all_kept_outputs_together_are_bounded_as_they_are_sent(box_modules: Path, warm: WarmProcess) -> None:
    # As JSON, each of these characters takes six bytes.
    cell = "for _ in range(12):\n    display({'text/plain': '\\1' * 150_000}, raw=True)"
    frames = BoxRunner(box_modules, warm=warm, keep_outputs=True).run([cell], []).frames
    sizes = [len(frame.body) for frame in frames if frame.type == "output"]
    assert MAX_OUTPUT - max(sizes) < sum(sizes) <= MAX_OUTPUT
