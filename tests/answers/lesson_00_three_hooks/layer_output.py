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

WRONG: list[Wrong] = []

SURVIVORS = {
    "lost copy": "nothing overwrites the output, and the contract asks for no copy",
    "results with a graph": "the contract does not ask for a tensor without one",
    "model.forward(x)": "lesson 0 says nothing of hooks on the model itself",
    "prepend=True": "other hooks on the layer only watch",
    "under no_grad": "the contract asks for no graph",
    "one global slot": "each call writes what it reads",
    "at least one dimension": "a linear layer needs one",
    "eval() and back": "the layers do the same in both modes",
    "values that lose digits": "a contract of one sentence promises nothing about digits",
    ".view(-1)": "a contract of one sentence promises nothing about how values lie in memory",
}
