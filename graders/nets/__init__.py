"""The networks that the lessons look into: ResNet-34 in plain torch.nn, and two small ones trained for the course.

Of the small ones, one tells drawn shapes apart, and the other continues lists of animals.
"""

from graders.nets.decoder import Block, Decoder, complete
from graders.nets.echo import WORDS, decode, draw_echoes, echo_decoder, encode
from graders.nets.resnet import ResNet, imagenet_resnet34, resnet34
from graders.nets.shapes import CLASSES, ShapesNet, draw_shapes, shapes_net
from graders.nets.yours import your_gpt2, your_model

__all__ = [
    "CLASSES",
    "WORDS",
    "Block",
    "Decoder",
    "ResNet",
    "ShapesNet",
    "complete",
    "decode",
    "draw_echoes",
    "draw_shapes",
    "echo_decoder",
    "encode",
    "imagenet_resnet34",
    "resnet34",
    "shapes_net",
    "your_gpt2",
    "your_model",
]
