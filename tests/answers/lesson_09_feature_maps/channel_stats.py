"""Answers to 09-channel-stats."""

from graders.author.answers import Wrong, changed

LOOP = """
        for b in batches:
            model(b)
"""


def stats(
    values: str = "output.double()",
    reduced: str = "rows.sum(1)",
    add: str = "+=",
    var: str = "q / n - (s / n) ** 2",
    zero: str = "(rows == 0)",
    run: str = "with layer.register_forward_hook(hook), torch.no_grad():" + LOOP,
    more: str = "",
) -> str:
    """An answer to 09-channel-stats that differs from a right one in one place."""
    return f"""
import torch

def channel_stats(model, layer, batches):
    t = dict(n=0, s=0, q=0, z=0)

    def hook(module, args, output):
        rows = {values}.transpose(0, 1).flatten(1)
        t["n"] {add} rows.shape[1]
        t["s"] {add} {reduced}
        t["q"] {add} {reduced.replace("rows", "(rows * rows)")}
        t["z"] {add} {reduced.replace("rows", zero + ".double()")}

    {run}
    n, s, q, z = t["n"], t["s"], t["q"], t["z"]
    {more}
    return {{"mean": (s / n).double(), "var": ({var}).double(), "zero_frac": z / n}}
"""


RIGHT = [
    """
import torch
from torch.nn.modules.module import register_module_forward_hook

def channel_stats(model, layer, batches):
    rows = []

    def hook(module, args, output):
        if module is layer:
            rows.append(output.double().movedim(1, 0).flatten(1).numpy().copy())

    before = torch.is_grad_enabled()
    handle = register_module_forward_hook(hook)
    torch.set_grad_enabled(False)
    try:
        list(map(model, batches))
    finally:
        torch.set_grad_enabled(before)
        handle.remove()
    values = torch.cat([torch.from_numpy(part) for part in rows], 1)
    mean = values.mean(1, keepdim=True)
    return {
        "mean": mean[:, 0],
        "var": (values - mean).square().mean(1),
        "zero_frac": values.eq(0).sum(1).double() / values.shape[1],
    }
""",
    """
import torch

def channel_stats(model, layer, batches):
    total = {"n": 0, "sum": 0, "squares": 0, "zeros": 0}

    def hook(module, args, output):
        rows = output.detach().double().transpose(0, 1).flatten(1)
        total["n"] += rows.shape[1]
        total["sum"] += rows.sum(1)
        total["squares"] += rows.square().sum(1)
        total["zeros"] += (rows == 0).double().sum(1)

    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    mean = total["sum"] / total["n"]
    return {
        "mean": mean,
        "var": total["squares"] / total["n"] - mean**2,
        "zero_frac": total["zeros"] / total["n"],
    }
""",
    """
import torch

class Running:
    # the update of Chan, Golub and LeVeque: mean and sum of squared deviations
    def __init__(self):
        self.n = 0
    def __call__(self, module, args, output):
        values = output.movedim(1, 0).reshape(output.shape[1], -1).to(torch.float64)
        n = values.shape[1]
        mean, zeros = values.mean(1), (values == 0).sum(1).to(torch.float64)
        m2 = ((values - mean[:, None]) ** 2).sum(1)
        if self.n == 0:
            self.n, self.mean, self.m2, self.zeros = n, mean, m2, zeros
            return
        delta, both = mean - self.mean, self.n + n
        self.m2 = self.m2 + m2 + delta**2 * self.n * n / both
        self.mean = self.mean + delta * n / both
        self.zeros = self.zeros + zeros
        self.n = both

def channel_stats(model, layer, batches):
    running = Running()
    handle = layer.register_forward_hook(running)
    try:
        with torch.inference_mode():
            for batch in batches:
                model(batch)
    finally:
        handle.remove()
    return {"mean": running.mean, "var": running.m2 / running.n, "zero_frac": running.zeros / running.n}
""",
    """
import torch

@torch.no_grad()
def channel_stats(model, layer, batches):
    kept, original = [], layer.forward

    def recording(*args, **kwargs):
        output = original(*args, **kwargs)
        kept.append(output.double().clone())
        return output

    layer.forward = recording
    try:
        for batch in list(batches):
            model(batch)
    finally:
        del layer.forward
    values = torch.cat([part.transpose(0, 1).flatten(1) for part in kept], dim=1)
    return dict(
        mean=values.mean(1), var=values.var(1, unbiased=False), zero_frac=(values == 0).double().mean(1)
    )
""",
    """
import torch

def channel_stats(model, layer, batches):
    from functools import partial
    sums = None
    def hook(keep, module, args, output):
        o = output.double()
        dims = [d for d in range(o.dim()) if d != 1]
        keep.append(torch.stack([torch.ones_like(o).sum(dims), o.sum(dims), (o * o).sum(dims), o.eq(0).sum(dims)]))
    parts = []
    handle = layer.register_forward_hook(partial(hook, parts))
    try:
        with torch.no_grad():
            for batch in batches:
                model(batch)
    finally:
        handle.remove()
    n, s, q, z = torch.stack(parts).sum(0)
    return {"zero_frac": z / n, "mean": s / n, "var": q / n - (s / n) ** 2}
""",
    """
import torch

def channel_stats(model, layer, batches):
    n, mean, squares, zeros = 0, 0.0, 0.0, 0
    def hook(module, args, output):
        nonlocal n, mean, squares, zeros
        v = output.double().transpose(0, 1).flatten(1)
        m, own = v.shape[1], v.mean(1)
        step, total = own - mean, n + m
        squares = squares + (v - own[:, None]).square().sum(1) + step**2 * (n * m / total)
        mean = mean + step * (m / total)
        zeros = zeros + (v == 0).sum(1)
        n = total
    with layer.register_forward_hook(hook), torch.inference_mode():
        for batch in batches:
            model(batch)
    return {"mean": mean, "var": squares / n, "zero_frac": (zeros / n).double()}
""",
]

WRONG = [
    Wrong(
        "float64 begins after the sum of each output",
        violates="Add up in float64",
        check="test_one_batch_one_twice_and_the_example_come_out",
        source=changed(
            stats(),
            ("rows = output.double()", "rows = output"),
            ("+= rows.sum(1)", "+= rows.sum(1).double()"),
            ("+= (rows * rows).sum(1)", "+= rows.double().square().sum(1)"),
        ),
    ),
    Wrong(
        "takes the hook away where the model raises, and not where the batches do",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
import torch

def channel_stats(model, layer, batches):
    outputs = []
    def keep(module, args, output):
        outputs.append(output.detach().double().movedim(1, 0).flatten(1))
    handle = layer.register_forward_hook(keep)
    with torch.no_grad():
        for batch in batches:
            try:
                model(batch)
            except BaseException:
                handle.remove()
                raise
    handle.remove()
    values = torch.cat(outputs, dim=1)
    return {
        "mean": values.mean(1),
        "var": values.var(1, correction=0),
        "zero_frac": (values == 0).double().mean(1),
    }
""",
    ),
    Wrong(
        "the mean of the variances",
        violates="all values of each channel over all batches together",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="averaged-variances",
        source="""
import torch

def channel_stats(model, layer, batches):
    parts = []
    def hook(module, args, output):
        parts.append(output.double().clone().transpose(0, 1).flatten(1))
    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    rows = torch.cat(parts, 1)
    var = torch.stack([part.var(1, correction=0) for part in parts]).mean(0)
    return {"mean": rows.mean(1), "var": var, "zero_frac": (rows == 0).double().mean(1)}
""",
    ),
    Wrong(
        "the standard deviation",
        violates='- `"var"`: their variance',
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="standard-deviation",
        source=stats(var="(q / n - (s / n) ** 2).clamp(min=0).sqrt()"),
    ),
    Wrong(
        "percent",
        violates="the share of values that are exactly 0, from 0 to 1",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source=changed(stats(), ("z / n}", "100 * z / n}")),
    ),
    Wrong(
        "zeros are divided as whole numbers",
        violates="dtype float64",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="not-float64",
        source=stats(zero="(rows == 0)").replace("z / n}", "z.long() / n}"),
    ),
    Wrong(
        "removes the hook unless it is interrupted",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        mistake="hook-left",
        source=stats(
            run="handle = layer.register_forward_hook(hook)\n    try:\n        with torch.no_grad():\n"
            "            for b in batches:\n                model(b)\n    except Exception:\n        handle.remove()\n"
            "        raise\n    handle.remove()"
        ),
    ),
    Wrong(
        "a loop over the batches for each sum",
        violates="which can be read only once",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="read-the-batches-twice",
        source="""
import torch

def channel_stats(model, layer, batches):
    def total(part):
        found = []
        hook = lambda module, args, output: found.append(part(output.double().transpose(0, 1).flatten(1)))
        with layer.register_forward_hook(hook), torch.no_grad():
            for batch in batches:
                model(batch)
        return sum(found)

    n = total(lambda rows: rows.shape[1])
    mean = total(lambda rows: rows.sum(1)) / n
    var = total(lambda rows: (rows * rows).sum(1)) / n - mean**2
    return {"mean": mean, "var": var, "zero_frac": total(lambda rows: (rows == 0).double().sum(1)) / n}
""",
    ),
    Wrong(
        "rounds to eight places",
        violates="dtype float64",
        check="test_one_batch_one_twice_and_the_example_come_out",
        source=stats(var="(q / n - (s / n) ** 2).round(decimals=8)"),
    ),
    Wrong(
        "one store for all calls",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_counts_for_itself",
        source=stats().replace("    t = dict(", "    t.update(").replace("def channel", "t = {}\n\ndef channel"),
    ),
    Wrong(
        "averages the statistics of batches",
        violates="all values of each channel over all batches together",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="averaged-batch-stats",
        source="""
import torch

def channel_stats(model, layer, batches):
    parts = []

    def hook(module, args, output):
        rows = output.double().transpose(0, 1).flatten(1)
        parts.append(torch.stack([rows.mean(1), rows.var(1, correction=0), (rows == 0).double().mean(1)]))

    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    return dict(zip(("mean", "var", "zero_frac"), torch.stack(parts).mean(0)))
""",
    ),
    Wrong(
        "keeps the last call",
        violates="the outputs of all calls count",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="only-last-call",
        source=stats(add="="),
    ),
    Wrong(
        "one number for all channels",
        violates="three tensors of shape [C]",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="not-per-channel",
        source=stats(reduced="rows.sum()").replace("rows.shape[1]", "rows.numel()"),
    ),
    Wrong(
        "the input",
        violates="Its output",
        check="raised",
        mistake="stored-the-input",
        source=stats(values="args[0].double()"),
    ),
    Wrong(
        "keeps outputs, which are overwritten",
        violates="Each describes all values of each channel",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="stored-alias",
        source="""
import torch

def channel_stats(model, layer, batches):
    outputs = []
    with layer.register_forward_hook(lambda module, args, output: outputs.append(output)), torch.no_grad():
        for batch in batches:
            model(batch)
    rows = torch.cat([o.transpose(0, 1).flatten(1) for o in outputs], 1).double()
    return {"mean": rows.mean(1), "var": rows.var(1, correction=0), "zero_frac": (rows == 0).double().mean(1)}
""",
    ),
    Wrong(
        "names dimensions 2 and 3",
        violates="two dimensions or more",
        check="raised",
        mistake="four-dimensions-only",
        source="""
import torch

def channel_stats(model, layer, batches):
    t = dict(n=0, s=0, q=0, z=0)

    def hook(module, args, output):
        o = output.double()
        t["n"] += o.numel() // o.shape[1]
        t["s"] += o.sum((0, 2, 3))
        t["q"] += (o * o).sum((0, 2, 3))
        t["z"] += (o == 0).double().sum((0, 2, 3))

    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    return {"mean": t["s"] / t["n"], "var": t["q"] / t["n"] - (t["s"] / t["n"]) ** 2, "zero_frac": t["z"] / t["n"]}
""",
    ),
    Wrong(
        "divides by n - 1",
        violates="divided by the number of values n (not n - 1)",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="unbiased-variance",
        source=stats(var="(q / n - (s / n) ** 2) * n / (n - 1)"),
    ),
    Wrong(
        "adds up in float32",
        violates="Add up in float64",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="float32-sums",
        source=stats(values="output.detach()"),
    ),
    Wrong(
        "counts negative values",
        violates="values that are exactly 0",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="counted-negatives",
        source=stats(zero="(rows <= 0)"),
    ),
    Wrong(
        "two loops over the batches",
        violates="which can be read only once",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="read-the-batches-twice",
        source="""
import torch

def channel_stats(model, layer, batches):
    t = dict(n=0, s=0, q=0, z=0)

    def first(module, args, output):
        rows = output.double().transpose(0, 1).flatten(1)
        t["n"] += rows.shape[1]
        t["s"] = t["s"] + rows.sum(1)
        t["z"] = t["z"] + (rows == 0).double().sum(1)

    with layer.register_forward_hook(first), torch.no_grad():
        for batch in batches:
            model(batch)
    mean = t["s"] / t["n"]
    deviations = torch.zeros_like(mean)

    def second(module, args, output):
        deviations.add_((output.double().transpose(0, 1).flatten(1) - mean[:, None]).square().sum(1))

    with layer.register_forward_hook(second), torch.no_grad():
        for batch in batches:
            model(batch)
    return {"mean": mean, "var": deviations / t["n"], "zero_frac": t["z"] / t["n"]}
""",
    ),
    Wrong(
        "no `no_grad`",
        violates="with gradients switched off",
        check="test_each_batch_runs_once_in_the_models_modes_without_gradients",
        mistake="graph-was-built",
        source=stats(
            values="output.detach().double()",
            run="with layer.register_forward_hook(hook):\n        for b in batches:\n            model(b)",
        ),
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_everything_is_left_as_it_was",
        source=stats(run="layer.register_forward_hook(hook)\n    with torch.no_grad():" + LOOP),
    ),
    Wrong(
        "removes the hook only when all goes well",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source=stats(
            run="handle = layer.register_forward_hook(hook)\n    with torch.no_grad():\n        for b in batches:\n"
            "            model(b)\n    handle.remove()"
        ),
    ),
    Wrong(
        "counts all calls, and adds up the last",
        violates="the outputs of all calls count",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source=stats(add="=").replace('t["n"] = ', 't["n"] += '),
    ),
    Wrong(
        "small values are zeros",
        violates="values that are exactly 0",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source=stats(zero="(rows.abs() < 0.01)"),
    ),
    Wrong(
        "the standard deviation",
        violates="their variance",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source=stats(var="(q / n - (s / n) ** 2).sqrt()"),
    ),
    Wrong(
        "rounds the sum to float32",
        violates="Add up in float64",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source=stats(more="s = s.float()\n    s = s"),
    ),
    Wrong(
        "all batches in one run",
        violates="Run `model(batch)` once for each batch",
        check="raised",
        source=stats(
            run="with layer.register_forward_hook(hook), torch.no_grad():\n        model(torch.cat(list(batches)))"
        ),
    ),
    Wrong(
        "leaves gradients switched off",
        violates="rule 2: Settings of PyTorch",
        check="test_everything_is_left_as_it_was",
        source=stats(
            run="torch.set_grad_enabled(False)\n    with layer.register_forward_hook(hook):\n"
            "        for b in batches:\n            model(b)"
        ),
    ),
    Wrong(
        "runs in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_each_batch_runs_once_in_the_models_modes_without_gradients",
        source=stats(
            run="before = model.training\n    model.eval()\n"
            "    with layer.register_forward_hook(hook), torch.no_grad():\n"
            "        for b in batches:\n            model(b)\n    model.train(before)"
        ),
    ),
    Wrong(
        "turns the mode round",
        violates="rule 7: with each part in its mode",
        check="test_each_batch_runs_once_in_the_models_modes_without_gradients",
        source=stats(
            run="model.train(not model.training)\n    with layer.register_forward_hook(hook), torch.no_grad():\n"
            "        for b in batches:\n            model(b)"
        ),
    ),
    Wrong(
        "counts zeros instead of their share",
        violates="the share of values that are exactly 0, from 0 to 1",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source=stats().replace("z / n}", "z}"),
    ),
    Wrong(
        "float32 tensors",
        violates="dtype float64",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source=stats().replace(".double(), ", ".float(), "),
    ),
    Wrong(
        "runs each batch twice",
        violates="once for each batch",
        check="test_each_batch_runs_once_in_the_models_modes_without_gradients",
        source=stats(
            values="output.detach().double()",
            run="with layer.register_forward_hook(hook):" + LOOP + "            with torch.no_grad():\n"
            "                model(b)",
        ),
    ),
    Wrong(
        "an empty dict",
        violates="Return a dict with three tensors",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source="def channel_stats(model, layer, batches):\n    return {}",
    ),
    Wrong(
        "divides the sum by n - 1",
        violates='`"mean"`: their mean',
        check="test_the_statistics_describe_all_values_of_each_channel",
        source=stats().replace('"mean": (s / n)', '"mean": (s / (n - 1))'),
    ),
    Wrong(
        "weighs by batch size",
        violates="Each describes all values of each channel over all batches together",
        check="test_the_statistics_describe_all_values_of_each_channel",
        mistake="weighed-by-batch-size",
        source="""
import torch

def channel_stats(model, layer, batches):
    parts, sizes = [], []

    def hook(module, args, output):
        rows = output.double().transpose(0, 1).flatten(1)
        parts.append(torch.stack([rows.mean(1), rows.square().mean(1), (rows == 0).double().mean(1)]))
        sizes.append(len(output))

    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    weights = torch.tensor(sizes, dtype=torch.float64)[:, None, None]
    mean, squares, zeros = (torch.stack(parts) * weights).sum(0) / weights.sum()
    return {"mean": mean, "var": squares - mean**2, "zero_frac": zeros}
""",
    ),
    Wrong(
        "calls `forward`",
        violates="Run `model(batch)` once for each batch",
        check="raised",
        source=stats().replace("model(b)", "model.forward(b)"),
    ),
    Wrong(
        "cleans up under `except Exception`",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source=stats(
            run="""handle = layer.register_forward_hook(hook)
    try:
        with torch.no_grad():
            for b in batches:
                model(b)
    except Exception:
        handle.remove()
        raise
    handle.remove()"""
        ),
    ),
    Wrong(
        "swallows exceptions",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source=stats(
            run="""with layer.register_forward_hook(hook), torch.no_grad():
        for b in batches:
            try:
                model(b)
            except Exception:
                pass"""
        ),
    ),
    Wrong(
        "switches gradients on at the end",
        violates="rule 2: Settings of PyTorch",
        check="test_everything_is_left_as_it_was",
        source=stats(
            run="""torch.set_grad_enabled(False)
    with layer.register_forward_hook(hook):
        for b in batches:
            model(b)
    torch.set_grad_enabled(True)"""
        ),
    ),
    Wrong(
        "one total for all calls",
        violates="rule 1: however often it is called",
        check="raised",
        source=stats().replace(
            "def channel_stats(model, layer, batches):\n    t = dict(n=0, s=0, q=0, z=0)",
            "t = dict(n=0, s=0, q=0, z=0)\n\ndef channel_stats(model, layer, batches):",
        ),
    ),
    Wrong(
        "a batch counts once",
        violates="Each describes all values",
        check="test_one_batch_one_twice_and_the_example_come_out",
        source=stats(
            run="""done = []
    with layer.register_forward_hook(hook), torch.no_grad():
        for b in batches:
            if not any(b is other for other in done):
                model(b)
            done.append(b)"""
        ),
    ),
    Wrong(
        "puts every module into the mode of the root",
        violates="rule 7: with each part in its mode",
        check="test_each_batch_runs_once_in_the_models_modes_without_gradients",
        source=stats(
            run="model.train(model.training)\n    with layer.register_forward_hook(hook), torch.no_grad():" + LOOP
        ),
    ),
    Wrong(
        "flattens by `view`",
        violates="two dimensions or more",
        check="raised",
        source=stats().replace(".transpose(0, 1).flatten(1)", ".transpose(0, 1).view(output.shape[1], -1)"),
    ),
    Wrong(
        "the layer's class instead of the layer",
        violates="Its output",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source="""
import torch
from torch.nn.modules.module import register_module_forward_hook

def channel_stats(model, layer, batches):
    rows = []
    def hook(module, args, output):
        if len(list(module.children())) == 0 and output.dim() > 1:
            rows.append(output.double().transpose(0, 1).flatten(1).clone())
    handle = register_module_forward_hook(hook)
    try:
        with torch.no_grad():
            for batch in batches:
                model(batch)
    finally:
        handle.remove()
    rows = torch.cat([part for part in rows if len(part) == len(rows[-1])], 1)
    return {"mean": rows.mean(1), "var": rows.var(1, correction=0), "zero_frac": (rows == 0).double().mean(1)}
""",
    ),
    Wrong(
        "what `isclose` takes for 0 is a zero",
        violates="values that are exactly 0",
        check="test_the_statistics_describe_all_values_of_each_channel",
        source="""
import torch

def channel_stats(model, layer, batches):
    values = []
    def hook(module, args, output):
        values.append(output.detach().double().transpose(0, 1).flatten(1).clone())
    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    values = torch.cat(values, 1)
    zeros = torch.isclose(values, torch.zeros_like(values))
    return {"mean": values.mean(1), "var": values.var(1, correction=0), "zero_frac": zeros.double().mean(1)}
""",
    ),
    Wrong(
        "makes the model float64 for good",
        violates="rule 2: A model keeps its parameters",
        check="test_everything_is_left_as_it_was",
        source="""
import torch

def channel_stats(model, layer, batches):
    values = []
    def hook(module, args, output):
        values.append(output.detach().double().transpose(0, 1).flatten(1).clone())
    model.double()
    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch.double())
    values = torch.cat(values, 1)
    zeros = values == 0
    return {"mean": values.mean(1), "var": values.var(1, correction=0), "zero_frac": zeros.double().mean(1)}
""",
    ),
    Wrong(
        "clears gradients",
        violates="rule 2: and their `.grad`",
        check="test_everything_is_left_as_it_was",
        source="""
import torch

def channel_stats(model, layer, batches):
    values = []
    def hook(module, args, output):
        values.append(output.detach().double().transpose(0, 1).flatten(1).clone())
    model.zero_grad()
    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch)
    values = torch.cat(values, 1)
    zeros = values == 0
    return {"mean": values.mean(1), "var": values.var(1, correction=0), "zero_frac": zeros.double().mean(1)}
""",
    ),
    Wrong(
        "overwrites the batches",
        violates="rule 2: Tensors keep their values",
        check="test_everything_is_left_as_it_was",
        source="""
import torch

def channel_stats(model, layer, batches):
    values = []
    def hook(module, args, output):
        values.append(output.detach().double().transpose(0, 1).flatten(1).clone())
    with layer.register_forward_hook(hook), torch.no_grad():
        for batch in batches:
            model(batch), batch.zero_()
    values = torch.cat(values, 1)
    zeros = values == 0
    return {"mean": values.mean(1), "var": values.var(1, correction=0), "zero_frac": zeros.double().mean(1)}
""",
    ),
]

WRONG += [
    Wrong(
        "empties the list of batches",
        violates="rule 2: Lists and dicts keep their entries",
        check="test_everything_is_left_as_it_was",
        source=stats(more="batches.clear() if isinstance(batches, list) else None"),
    ),
    Wrong(
        "zeros are counted in float32",
        violates="the share of values that are exactly 0",
        check="test_one_batch_one_twice_and_the_example_come_out",
        source=stats(zero="(rows.float() == 0)"),
    ),
    Wrong(
        "seen as rows of memory",
        violates="rule 1: in any layout",
        check="raised",
        source=stats(values="output.double().view(*output.shape[:2], -1)"),
    ),
]

GIVENS = [
    "Write `channel_stats(model, layer, batches)`.",
    "`layer` is a part of `model`, or `model` itself.",
    "`batches` holds one tensor or more; they may differ in size.",
    "Hooks of others on `layer` itself only watch.",
]

SURVIVORS = {
    "at least one dimension": "outputs have two or more",
    "no empty collection": "there is at least one batch",
    "values that lose digits": "eighths lose none",
    "under no_grad": "the model runs without gradients in any case",
    "prepend=True": "hooks of the caller on the layer only watch",
    "a list for a tuple": "what is run through is no result",
    "clean-up not after an exception: with _only_when_well(torch.inference_mode())": "it is dropped, and cleans up",
    "clean-up only after an `Exception`: with _not_after_interrupts(torch.inference_mode())": "as above",
    "lost copy: for batch in _not_copied(batches)": "nobody changes the list meanwhile",
    "another method: n, s, q, z = torch.stack(parts).mean(0)": "ratios of means are ratios of sums",
    "not for all: dims = ": "the same dimensions, in the reverse order",
    "almost: n, mean, squares, zeros = (0, 1.0": "the first step multiplies it by 0",
}
