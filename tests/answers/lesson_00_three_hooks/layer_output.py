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
        "ends the run at the layer",
        violates="Run the model once",
        check="test_the_model_runs_once,_no_hook_is_left,_and_nothing_else_has_changed",
        source="""
class Stop(Exception):
    pass

def layer_output(model, layer, x):
    kept = []
    def hook(module, args, output):
        kept.append(output)
        raise Stop
    try:
        with layer.register_forward_hook(hook):
            model(x)
    except Stop:
        pass
    return kept[0]
""",
    ),
]

SURVIVORS = {
    "lost copy": "nothing overwrites the output, and the contract asks for no copy",
    "results with a graph": "the contract does not ask for a tensor without one",
    "model.forward(x)": "lesson 0 says nothing of hooks on the model itself",
    "under no_grad": "the contract asks for no graph",
    "one global slot": "each call writes what it reads",
    "eval() and back": "it gives both the model and the layer their modes back, and linear layers ignore them",
}
