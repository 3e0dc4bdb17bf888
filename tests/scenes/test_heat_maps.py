"""Heat maps in which one pixel is clearly the largest once they are enlarged."""

import pytest
import torch

from graders.scenes.heat_maps import has_two_peaks


@pytest.mark.parametrize(("beyond", "two"), [(1.0, True), (1.0 + 1e-7, True), (1.01, False)])
def test_the_cells_on_both_sides_of_the_largest_decide(beyond: float, two: bool) -> None:
    # 3 columns become 8: columns 3 and 4 lie at equal distances from the middle of cell 1
    heat = torch.tensor([[1.0, 3.0, beyond]], dtype=torch.float64)
    assert has_two_peaks(heat, (1, 8)) is two
