"""Answers to 00-layer-output."""

from graders.author.answers import Wrong

RIGHT = [
    """
def layer_output(model, layer, x):
    kept = {}

    def hook(module, args, output):
        kept["output"] = output

    handle = layer.register_forward_hook(hook)
    model(x)
    handle.remove()
    return kept["output"]
""",
    """
import torch

def layer_output(model, layer, x):
    outputs = []
    with torch.no_grad(), layer.register_forward_hook(lambda *called: outputs.append(called[-1].clone())):
        model(x)
    return outputs[0]
""",
    """
kept = []

def layer_output(model, layer, x):
    with layer.register_forward_hook(lambda module, args, output: kept.append(output.detach())):
        model(x)
    return kept[-1]
""",
]

WRONG = [
    Wrong(
        "runs the layers itself, as far as it finds them in containers",
        violates="runs `model(x)`, returns the output of `layer`",
        check="test_the_output_of_the_layer_is_returned",
        source="""
from torch import nn

def layer_output(model, layer, x):
    def walk(module, x):
        if module is layer:
            return module(x), True
        found = False
        for child in module if isinstance(module, nn.Sequential) else ():
            x, found = walk(child, x)
            if found:
                break
        else:
            x = x if isinstance(module, nn.Sequential) else module(x)
        return x, found

    return walk(model, x)[0]
""",
    ),
    Wrong(
        "takes the first layer that looks like the one it was given",
        violates="returns the output of `layer`",
        check="test_the_output_of_the_layer_is_returned",
        source="""
def layer_output(model, layer, x):
    twin = next(module for module in model.modules() if repr(module) == repr(layer))
    kept = []
    with twin.register_forward_hook(lambda module, args, output: kept.append(output)):
        model(x)
    return kept[0]
""",
    ),
    Wrong(
        "looks for the layer among the model's children",
        violates="returns the output of `layer`",
        check="test_the_output_of_the_layer_is_returned",
        source="""
def layer_output(model, layer, x):
    kept = {}
    hooks = [
        child.register_forward_hook(lambda module, args, output: kept.update({module: output}))
        for child in model.children()
    ]
    model(x)
    for hook in hooks:
        hook.remove()
    return kept.get(layer)
""",
    ),
]

SURVIVORS = {
    "lost copy": "nothing overwrites the output, and the contract asks for no copy",
    "results with a graph": "the contract does not ask for a tensor without one",
    "model.forward(x)": "lesson 0 says nothing of hooks on the model itself",
    "under no_grad": "the contract asks for no graph",
    "one global slot": "each call writes what it reads",
    "eval() and back": "the layers do the same in both modes",
}
