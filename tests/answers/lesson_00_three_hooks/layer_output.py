"""Answers to 00-layer-output."""

from graders.author.answers import Wrong, changed

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

WITH = """
def layer_output(model, layer, x):
    kept = []
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        result = model(x)
    return kept[0]
"""

WRONG = [
    Wrong(
        "keeps the input",
        violates="returns the output of `layer`",
        check="test_the_output_of_the_layer_is_returned",
        mistake="stored-the-input",
        source=changed(WITH, ("append(output)", "append(args[0])")),
    ),
    Wrong(
        "keeps the tuple of inputs",
        violates="returns the output of `layer`",
        check="test_the_output_of_the_layer_is_returned",
        mistake="stored-the-input",
        source=changed(WITH, ("append(output)", "append(args)")),
    ),
    Wrong(
        "returns the list",
        violates="returns the output of `layer`",
        check="test_the_output_of_the_layer_is_returned",
        mistake="returned-the-list",
        source=changed(WITH, ("kept[0]", "kept")),
    ),
    Wrong(
        "returns what the model returns",
        violates="the output of `layer`",
        check="test_the_output_of_the_layer_is_returned",
        mistake="returned-the-models-output",
        source=changed(WITH, ("kept[0]", "result")),
    ),
    Wrong(
        "calls the layer alone",
        violates="runs `model(x)`",
        check="test_the_output_of_the_layer_is_returned",
        mistake="skipped-the-model",
        source="""
def layer_output(model, layer, x):
    return layer(x)
""",
    ),
    Wrong(
        "keeps all outputs in one list and returns the first",
        violates="runs `model(x)`, returns the output of `layer`",
        check="test_the_output_of_the_layer_is_returned",
        mistake="left-over",
        source="""
kept = []

def layer_output(model, layer, x):
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        model(x)
    return kept[0]
""",
    ),
    Wrong(
        "leaves its hook",
        violates="leaves no hook behind",
        check="test_no_hook_is_left_and_nothing_has_changed",
        mistake="hook-left-behind",
        source="""
def layer_output(model, layer, x):
    kept = []
    layer.register_forward_hook(lambda module, args, output: kept.append(output))
    model(x)
    return kept[0]
""",
    ),
    Wrong(
        "takes all hooks off the layer",
        violates="leaves no hook behind",
        check="test_no_hook_is_left_and_nothing_has_changed",
        source="""
def layer_output(model, layer, x):
    kept = []
    layer.register_forward_hook(lambda module, args, output: kept.append(output))
    model(x)
    layer._forward_hooks.clear()
    return kept[0]
""",
    ),
    Wrong(
        "runs the model before the hook is there",
        violates="runs `model(x)`",
        check="raised",
        mistake="nothing-kept",
        source="""
def layer_output(model, layer, x):
    kept = []
    model(x)
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        return kept[0]
""",
    ),
]

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
