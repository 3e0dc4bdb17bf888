"""The networks that lessons look into: ResNet-34 in plain torch.nn, and a small net trained on drawn shapes."""

from graders.nets.resnet import ResNet, imagenet_resnet34, resnet34
from graders.nets.shapes import CLASSES, ShapesNet, draw_shapes, shapes_net

__all__ = ["CLASSES", "ResNet", "ShapesNet", "draw_shapes", "imagenet_resnet34", "resnet34", "shapes_net"]
