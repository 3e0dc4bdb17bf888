"""Heat maps in which one pixel is clearly the largest once they are enlarged, so that the contract decides."""

from types import SimpleNamespace

import pytest
import torch.nn.functional as F

from graders.scenes.stories.heat_maps import SIZES, maps_and_boxes
from graders.scenes.story import Draw


@pytest.mark.parametrize("sizes", SIZES)
def test_the_largest_pixel_is_the_one_in_the_box_and_no_other_is_nearly_as_large(sizes: str) -> None:
    case = SimpleNamespace(sizes=sizes, dtype="float32")
    made = maps_and_boxes(Draw(3, case), case, ["pixel"] * 50)
    large = F.interpolate(made.cam[:, None], SIZES[sizes][1], mode="bilinear", align_corners=False)[:, 0]
    for heat, (x0, y0, x1, y1) in zip(large, made.boxes.tolist()):
        first, second = heat.flatten().topk(2).values
        assert (heat[y0:y1, x0:x1] == first).all()
        assert second < 0.99 * first
