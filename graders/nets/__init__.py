"""The networks that the lessons look into, in plain torch.nn, and pictures for them.

ResNet-34 and EfficientNet-Lite0 classify photographs. Two small ones were trained for the course: one tells drawn
shapes apart, and the other continues lists of animals.
"""

from graders.nets.decoder import Block, Decoder, complete
from graders.nets.echo import WORDS, decode, draw_echoes, echo_decoder, encode
from graders.nets.lite0 import Lite0, lite0
from graders.nets.pictures import Collage, Pictures, pictures
from graders.nets.resnet import ResNet, imagenet_resnet34, resnet34
from graders.nets.shapes import CLASSES, ShapesNet, draw_shapes, shapes_net
from graders.nets.yours import your_gpt2, your_model

__all__ = [
    "CLASSES",
    "WORDS",
    "Block",
    "Collage",
    "Decoder",
    "Lite0",
    "Pictures",
    "ResNet",
    "ShapesNet",
    "complete",
    "decode",
    "draw_echoes",
    "draw_shapes",
    "echo_decoder",
    "encode",
    "imagenet_resnet34",
    "lite0",
    "pictures",
    "resnet34",
    "shapes_net",
    "your_gpt2",
    "your_model",
]
