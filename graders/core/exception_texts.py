"""What exceptions say whose texts are enough to know the cause, in PyTorch's words and in ours."""

from graders.core.explanations import Explanation
from graders.core.mistakes import COMMON_MESSAGES

RETURNED = Explanation(
    "returned-something",
    "What your hook returned took the place of what flows on, and does not fit there. A hook that only watches "
    "returns `None` (a lambda returns its value); one that changes something returns what it got, changed: a tensor "
    "for a tensor, a tuple for a tuple.",
)
BY_TEXT = (
    (
        r"__exit__\(\) takes .*positional",
        "exit-takes-three",
        "Python calls `__exit__` with three arguments, which say what the block raised: write `def __exit__(self, "
        "kind, error, traceback):`, or `*args`.",
    ),
    (
        r"(<locals>|<lambda>)(?!\S*\bforward\(\)).*(takes .*positional arguments? but|missing \d+ required positional)",
        "wrong-signature",
        "PyTorch calls your hook with other arguments: `(module, args, output)` for a forward hook, `(module, args)` "
        "for a pre-hook, `(module, grad_input, grad_output)` for a full backward hook, `(grad)` for a hook on a "
        "tensor.",
    ),
    (r"expected Variable, but hook returned", RETURNED.id, RETURNED.message),
    (r"hook .* has changed the type of value", "changed-dtype", COMMON_MESSAGES["changed-dtype"]),
    (
        r"grad can be implicitly created only for scalar outputs",
        "no-sum",
        "`backward()` without an argument starts at one number, and this tensor has more. Add them up first, as in "
        "`y.sum().backward()`.",
    ),
    (
        r"Tensor with \d+ elements cannot be converted to Scalar",
        "item-of-many",
        "`.item()` makes a Python number of a tensor with one element, and this one has more. Keep the tensor itself, "
        "or make one number of it first, as `.sum()` and `.norm()` do.",
    ),
    (
        r"mutated during iteration|changed size during iteration",
        "changed-while-looping",
        "You changed a dict in a loop over it. Loop over a copy, `list(entries)`, or empty it with `clear()`.",
    ),
    (
        r"object has no attribute '\w+\.[\w.]+'",
        "dotted-name",
        "`getattr` takes one name, and this is a path with dots: `model.get_submodule(path)` follows it.",
    ),
    (
        r"One of the differentiated Tensors does not require grad",
        "asked-what-needs-no-grad",
        "`torch.autograd.grad` was asked for the gradient of a tensor that does not require grad: data, something "
        "frozen, or what `detach()` returns. Ask for the tensor itself; of data, make a copy that requires it.",
    ),
    (
        r"stack expects a non-empty TensorList",
        "stack-of-nothing",
        "The list that you stack is empty: what should have filled it has not run, or put everything under another "
        "key. Hooks that a loop makes all read its variable when they run, and by then it has its last value: bind it, "
        "as in `lambda *args, name=name: ...`.",
    ),
    (
        r"linalg.norm: If dim is not specified but ord is",
        "norm-of-a-matrix",
        "With an order, `torch.linalg.norm` takes vectors and matrices alone, and of a matrix it is another norm: its "
        "largest singular value. The root of the sum of all squares is `t.norm()`, whatever the shape.",
    ),
    (
        r"view size is not compatible with input tensor",
        "view-of-another-layout",
        "`view` reads memory as it lies, and this tensor is transposed, or part of another. `reshape` and `flatten` "
        "take any layout.",
    ),
    (
        r"needed for gradient computation has been modified by an inplace operation",
        "changed-before-backward",
        "A tensor was changed in place after the forward pass had used it, and the backward pass needs it as it was. "
        "Put buffers back only after that pass. In a hook compute a new tensor: `2 * output`, and not "
        "`output.mul_(2)`.",
    ),
    (
        r"through the graph a second time",
        "second-pass-of-a-graph",
        "A backward pass frees its graph, and you started a second one through it. One pass is often enough: hooks, "
        "`retain_grad()`, or `torch.autograd.grad` with a list give all gradients at once.",
    ),
    (
        r"post accumulate grad hooks cannot be registered on non-leaf tensors",
        "post-hook-on-a-non-leaf",
        "A post-accumulate-grad hook is for leaves only, and it sees `.grad`, the total of all passes. `register_hook` "
        "works on every tensor that requires grad, and its hook gets the gradient of this pass.",
    ),
    (
        r"cannot register a hook on a tensor that doesn't require grad",
        "hook-without-grad",
        "Only a tensor that requires grad takes a hook. A copy or a view that is made under `torch.no_grad()`, or of "
        "something that requires no grad, does not. Hook the tensor that you were given, or ask `t.requires_grad` "
        "first.",
    ),
    (
        r"cannot access local variable|local variable .* referenced before assignment",
        "assigned-inside",
        "A function that assigns to a name, as in `n += 1`, has a variable of its own by that name, still without a "
        "value. Write `nonlocal n` first, or change an object instead: `found.append(...)`, `d['n'] += 1`.",
    ),
    (
        r"Boolean value of Tensor with more than one value is ambiguous",
        "truth-of-a-tensor",
        "`if`, `and`, `or`, `min` and `max` ask whether a tensor is true, and one with several elements is neither "
        "true nor false. Ask `t is None` or `t.any()`; for each element use `clamp`, `torch.where` or `torch.maximum`.",
    ),
    (
        r"'(Tensor|Parameter)' object is not callable",
        "tensor-for-a-function",
        "A tensor stands where a function has to. `register_hook` takes the function itself, `hook` or `lambda grad: "
        "...`, and not what it returns, as in `hook(grad)`.",
    ),
    (
        r"hook .* has changed the size of value",
        "changed-shape",
        "Your hook returned a tensor of another shape. What a hook returns replaces the gradient, so it needs the "
        "shape of `grad`; a hook that only watches returns `None`.",
    ),
    (
        r"'RemovableHandle' object is not iterable",
        "one-handle",
        "You returned one handle, and a list of them was asked for: `[handle]`.",
    ),
    (
        r"returned an incorrect number of gradients",
        "a-gradient-for-each-argument",
        "`backward` of a `torch.autograd.Function` returns one value for each argument of `forward` after `ctx`, and "
        "`None` for an argument that is no tensor.",
    ),
    (
        r"save_for_backward can only save",
        "saved-a-number",
        "`ctx.save_for_backward` is for tensors. Anything else is kept as an attribute: `ctx.factor = factor`.",
    ),
    (
        r"append\(\) takes exactly one argument \(\d",
        "append-one-thing",
        "`append` takes one thing. A tuple needs parentheses of its own: `log.append((name, value))`.",
    ),
    (
        r"unexpected keyword argument 'prepend'",
        "no-prepend",
        "Hooks on tensors have no `prepend`: they run in the order in which they were registered.",
    ),
    (
        r"iteration over a 0-d tensor",
        "loops-over-a-tensor",
        "A loop over a tensor (and `extend`, `zip` or `*t`) goes along dimension 0, and a tensor of one number has "
        "none. Treat the tensor as a whole.",
    ),
    (
        r"too many indices for tensor of dimension",
        "too-many-indexes",
        "You gave more indexes than the tensor has dimensions: what stands between two commas is for one dimension. "
        "`t[i]` works for every tensor with one or more.",
    ),
    (
        r"BackwardHookFunction.* is a view and is being modified inplace",
        "full-hook-and-in-place",
        "A full backward hook breaks when its module, or the one right after it, works in place. A tensor hook does "
        "not: register it on `output` in a forward hook.",
    ),
    (
        r"more than one element of the written-to tensor refers to a single memory location",
        "in-place-on-a-gradient",
        "You changed a tensor in place whose entries share memory, as the gradient of a sum does. What a hook gets is "
        "not yours anyway: compute a new tensor, `grad.square()` in place of `grad.square_()`.",
    ),
    (
        r"is out of bounds for dimension \d",
        "index-too-large",
        "An index is larger than this dimension allows. `t[i]` counts along dimension 0, and `t[:, i]` along dimension "
        "1: is it the dimension that you mean?",
    ),
    (
        r"Dimension out of range",
        "no-such-dimension",
        "The tensor has fewer dimensions than your line counts on. -1 is the last of them, however many there are, and "
        "`reshape(-1, n)` makes rows of a vector as well.",
    ),
    (
        r"maximum recursion depth exceeded",
        "calls-itself",
        "A function calls itself without end. In `g = lambda x: f(g(x))`, the name `g` is looked up when the lambda "
        "runs, and is the lambda itself by then. Keep what it was, with a default argument: `lambda x, g=g: f(g(x))`.",
    ),
    (
        r"step must be greater than zero",
        "steps-backwards",
        "A tensor takes no negative step, as a list does with `[::-1]`. Turn it with `t.flip(0)`.",
    ),
    (
        r"must return None or a tuple of \(new_args, new_kwargs\)",
        "pre-hook-returns-both",
        "With `with_kwargs=True` a pre-hook returns a tuple of two, the positional arguments and the dict of keywords: "
        "`return args, kwargs`.",
    ),
    (
        r"where no input requires gradient should always return None",
        "no-gradient-to-replace",
        "No input of this module requires grad, so there is no gradient to replace. A full backward hook returns "
        "`None` then, or a tuple with `None` for each input.",
    ),
    (
        r"expected 'f' to be string, path, or a file-like object",
        "what-to-save-first",
        "`torch.save(what, path)` gets what is saved first, and then the path.",
    ),
    (
        r"(tuple|list) index out of range|index -?\d+ is out of range",
        "no-such-entry",
        "A tuple or list is shorter than your line counts on. `args` has only what is passed by position, which may be "
        "nothing; a gradient hook gets one entry for each input or output; and a list is empty until a hook fills it.",
    ),
    (
        r"'tuple' object does not support item assignment",
        "tuple-stays",
        "A tuple cannot be changed. Make a new one, as in `(new, *args[1:])`, and return it.",
    ),
    (
        r"can't multiply sequence by|for \S+: '(tuple|list|dict)' and '\w+'|'(float|int)' and '(tuple|list|dict)'",
        "tuple-in-a-calculation",
        "You calculate with a tuple, a list or a dict: `args`, `grad_input` and `grad_output` are tuples, and what a "
        "module returns may be any of them. Take each entry by itself, and make a new tuple of the results: `tuple(... "
        "for g in grad_output)`.",
    ),
    (
        r"have the same dtype, but got|must have the same dtype|expected scalar type \w+ but found",
        "two-dtypes",
        "A float32 tensor meets a float64 one. What `torch.zeros`, `torch.randn` or `torch.tensor` make of floats is "
        "float32: say `dtype=other.dtype`, or use `torch.zeros_like(other)` or `other.new_zeros(...)`.",
    ),
    (
        r"stack expects each tensor to be equal size",
        "stack-of-unlike-shapes",
        "`torch.stack` makes one tensor of tensors with one shape, and these have several. Is one tensor asked for? A "
        "list may hold tensors of any shapes.",
    ),
    (
        r"must match the size of tensor b|shapes cannot be multiplied",
        "sizes-do-not-fit",
        "Two tensors whose sizes do not fit meet in a calculation. What your hook returns needs the shape of what it "
        "replaces, for the layers behind count on it; in a line of yours, look at the `dim` of each call.",
    ),
    (
        r"forward\(\) takes .*positional arguments? but",
        "too-many-arguments",
        "`forward` gets more positional arguments than it takes. What a pre-hook returns becomes these arguments: one "
        "tuple of them, and with `with_kwargs=True` a dict of the keywords beside it, `(args, kwargs)`.",
    ),
    (
        r"got multiple values for (keyword )?argument",
        "passed-twice",
        "One argument arrives twice: by position and by keyword, or under one name in two dicts. In `{**a, **b}` the "
        "second wins, where `dict(**a, **b)` fails. A dict that outlives the call brings back what came earlier.",
    ),
    (
        r'is missing the required "forward" function',
        "no-forward",
        "A `ModuleDict` or `ModuleList` only holds modules: it has no `forward`. How a model uses its children stands "
        "in its own `forward`: call the model, and let hooks see what happens inside.",
    ),
    (
        r"Cannot use both regular backward hooks and full backward hooks",
        "deprecated-hook",
        "`register_backward_hook` is deprecated: its `grad_input` may belong to an operation inside the module, and "
        "it fails beside full hooks. Use `register_full_backward_hook`.",
    ),
    (
        r"before Module\.__init__\(\) call",
        "no-super-init",
        "`__init__` has to begin with `super().__init__()`: only then can a module store children and parameters.",
    ),
    (
        r"functions with out=\.\.\. arguments don't support automatic differentiation",
        "out-and-a-graph",
        "`out=` writes the result into a tensor that is already there, and autograd cannot follow that. Leave it out, "
        "and return the new tensor: what a hook gets is not yours to overwrite.",
    ),
    (
        r"Legacy autograd function with non-static forward",
        "function-of-old-pytorch",
        "This `torch.autograd.Function` is in the style of old PyTorch. Now `forward(ctx, ...)` and `backward(ctx, "
        "grad)` are static methods (`@staticmethod`), `ctx` keeps what `self` did, and you call `TheClass.apply(...)`.",
    ),
    (
        r"created explicitly by the user .* support the deepcopy",
        "deepcopy-of-a-result",
        "`copy.deepcopy` cannot copy a tensor that an operation has made, since its graph would be copied, too. Use "
        "`.detach().clone()`.",
    ),
    (
        r"does not require grad and does not have a grad_fn",
        "backward-without-a-graph",
        "`backward()` starts at a tensor that has no graph: something before it was detached, computed under "
        "`torch.no_grad()`, or needs no grad. Where the task allows that, ask `loss.requires_grad` first.",
    ),
)
"""What the message of an exception contains, and what explains it: an id and a message."""
