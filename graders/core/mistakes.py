"""Messages of the mistakes that many exercises share. An exercise may say it more exactly."""

COMMON_MESSAGES: dict[str, str] = {
    "every-name": (
        "A module here has two names, and you listed it under both. `model.named_modules()` yields each module once, "
        "under its first name: leave out `remove_duplicate=False`, or use it in place of a walk of your own."
    ),
    "forgot-return": (
        "Everything came through as if your hook were not there. What a hook returns replaces the old value, and "
        "`None` keeps it: return the new value. And a `with` block takes a hook off again when it ends."
    ),
    "in-place-leak": (
        "Your hook changed its argument in place. That buffer is shared with the gradient of another tensor. "
        "Compute a new tensor and return it."
    ),
    "cut-off-graph": (
        "In a pass with `create_graph=True` gradients have a graph, and your hook cut it off (`detach()`, `.data` or "
        "`no_grad`). Compute the new gradient from the one that the hook gets."
    ),
    "stored-alias": (
        "You kept a tensor whose memory something overwrites later: a layer that works in place, or whoever else holds "
        "it. Copy it before that, in the hook and not after the run, for each entry anew: `.detach().clone()`."
    ),
    "values-not-gradients": ("These are the values of the tensor, not the gradients that arrive at it."),
    "hook-left-behind": (
        "A hook is still registered after your function returned. Keep every handle and call its `remove()`."
    ),
    "hook-left-after-exception": (
        "The model raised an exception, and your `remove()` was skipped. Put it in `finally`, or use the handle as a "
        "context manager: `with module.register_forward_hook(hook):`."
    ),
    "another-mode": (
        "These are the model's numbers in a different mode: your function calls `eval()` or `train()`. A model may "
        "compute something else then; run it in the mode it is in."
    ),
    "late-binding": (
        "All your hooks read the loop variable when they run, and by then it has its last value. "
        "Bind it with a default argument: `def hook(..., name=name):`, or `lambda *args, name=name: ...`."
    ),
    "hooked-a-copy": (
        "None of your hooks is on the tensor once your function has returned. A hook on a new tensor (`t * 1`, a "
        "view, a detached copy) does not see the loss, and `with` removes a hook at the end of its block."
    ),
    "reads-dot-grad": (
        "Inside the hook, `.grad` has not been written yet for this pass. "
        "Use the gradient that the hook receives as its argument."
    ),
    "took-values-for-a-gradient": (
        "A post-accumulate-grad hook is given the tensor itself and not a gradient, so you computed with its values. "
        "Read its `.grad` in the hook."
    ),
    "accumulated-grad": (
        "`.grad` adds up over passes, and you recorded that total. The task asks for each pass alone."
    ),
    "no-handle": (
        "The handle is missing (or all of them, where you register several hooks). Return what the `register_...` "
        "method gives you, so that the caller can remove the hook."
    ),
    "changed-callers-tensor": (
        "Your hook edited `output` in place. Some modules (Identity, Flatten, Dropout in eval mode) pass on the very "
        "tensor that they were given, so the edit reached the caller's input. Clone, edit the clone, return it."
    ),
    "the-same-list": (
        "You return the same list object from every call. A caller who changes it changes what the next call returns. "
        "Make the list inside the function."
    ),
    "changed-dtype": (
        "You computed with a new tensor that does not have the dtype of the gradient: `torch.tensor(s)` and "
        "`torch.zeros(3)` are float32. Use plain numbers, or build it from the gradient: `torch.zeros_like(grad)`."
    ),
    "wrong-axis": "You indexed the wrong axis: rows are dimension 0, channels are dimension 1.",
    "wrong-hook-kind": (
        "This kind of hook fires at a different moment, or on different tensors, from what the task needs."
    ),
    "registration-order": (
        "Hooks run in the order in which they were registered, unless `prepend=True`; hooks on tensors have no "
        "`prepend`."
    ),
    "one-bound-only": (
        "Elements beyond one of the two bounds go on as they are. Both bounds count, even one that is 0 (`lo or ...` "
        "treats 0 as no bound at all)."
    ),
    "only-last-call": ("A module can run more than once per forward pass, and your store kept only its last call."),
    "definition-order": (
        "The order asked for is the order of execution, not of definition. Fill the dict when the hook fires, and do "
        "not sort it afterwards."
    ),
    "only-sequential-recursed": (
        "You did not descend into custom blocks or `ModuleList`. `named_modules()` visits every level."
    ),
    "bare-tensor": (
        "A module backward hook returns a tuple with one entry for each input (or output), not a bare tensor."
    ),
    "changed-the-input": "You changed what goes into the module. The task changes what comes out.",
    "stored-the-input": "You stored `args[0]`, the module's input. The task asks for its `output`.",
    "polluted-grads": (
        "Your result is right, but `backward()` wrote `.grad` on every parameter. "
        "`torch.autograd.grad` returns gradients and writes nothing."
    ),
    "parameter-grads": (
        "You used the gradients of the parameters. The task is about the gradients of the activations."
    ),
    "one-slot-for-all": (
        "Your function is right when used once, but not when used again, for another object or in the middle of a "
        "call: both uses share one slot. Store things for each call separately, and not in a global or an attribute "
        "of the function."
    ),
    "zeros-left-out": (
        "A gradient of zeros has arrived, and you leave it out, while all the others are there. Zeros are a gradient, "
        "too; only `None` means that none came."
    ),
    "returned-a-value": (
        "Your hook returned a value, and PyTorch refuses it. A post-accumulate-grad hook has to return `None`, but "
        "a lambda returns the value of its expression. Write a function with `def` that returns nothing."
    ),
    "zeroed-not-freed": (
        "`.grad` is a tensor of zeros, which takes as much memory as the gradient did. Set it to `None`."
    ),
    "leaves-only": "Some modules are missing: containers are modules too, and they count here.",
    "not-float32": (
        "The dtype of your array is not float32. A new numpy array is float64 unless you say `dtype=np.float32`; "
        "`.astype(np.float32)` converts one."
    ),
    "replaced-the-dict": (
        "You put new dicts in place of the old ones, and now no hook can be registered any more: a handle needs a weak "
        "reference to the dict, which a plain `{}` does not allow. Empty the old dict with `clear()`."
    ),
    "before-the-callers-hook": (
        "One of the caller's hooks replaces an output, and you looked at it before that. What counts is what the next "
        "layer gets: register a hook on the layer itself, without `prepend=True`. A new `forward`, or a hook on all "
        "modules, comes too early."
    ),
    "looked-too-late": (
        "A later layer works in place on an output, and you looked at it after that. Look in the hook, while the "
        "output is as it left the module, or keep a copy."
    ),
    "softmax-target": (
        "You took the gradient of the probability, or of its logarithm. The softmax mixes all logits, so other classes "
        "come in: use the logit."
    ),
    "cut-the-graph": (
        "The values are right, but no gradient gets through any more. Leave out `detach()`, `.data` and "
        "`torch.no_grad()` in your hook."
    ),
    "one-kind-only": (
        "Some kinds of hooks are still there. A module keeps four kinds, each in its own dict: forward pre-hooks, "
        "forward hooks, backward pre-hooks and backward hooks."
    ),
    "children-only": (
        "Some modules still have their hooks. Go over all `modules()`: the model and everything in it, at any depth. "
        "`children()` yields only the next level, without the model itself."
    ),
    "flag-set": (
        "You set the flag `_is_full_backward_hook`, and a module now refuses backward hooks of one kind. Leave the "
        "flag, or set it back to `None`."
    ),
    "old-grad": (
        "The result is wrong where `.grad` held something before: `backward()` adds to that. Set `.grad` to `None` "
        "before each pass, and put the old tensor back at the end."
    ),
}
