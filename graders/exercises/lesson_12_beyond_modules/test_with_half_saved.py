"""Exercise 12-with-half-saved."""

import torch
from torch.autograd.graph import saved_tensors_hooks

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import saving_functions


def halved(fn, which=torch.is_floating_point, to=torch.Tensor.half, back=torch.Tensor.to):
    """The result of `fn()`. Those tensors are kept as `to` makes them, and `back(kept, dtype)` is given back."""

    def pack(tensor):
        return tensor.dtype, to(tensor.detach()) if which(tensor) else tensor.detach()

    with saved_tensors_hooks(pack, lambda packed: back(packed[1], packed[0])):
        return fn()


@exercise(
    "12-with-half-saved",
    points=3,
    minutes=20,
    difficulty=3,
    title="Save for backward in half precision",
    hints=(
        "`pack` may return anything, for example the pair `(tensor.dtype, tensor.detach().half())`. `unpack` gets this "
        "pair and has to return a tensor of the old dtype.",
        "Indices and masks are saved, too, and float16 ruins them. `tensor.is_floating_point()` tells which tensors to "
        "change; give the others back as they are.",
        "The result of `fn()` is not touched: only what autograd saves goes through `pack`.",
    ),
    why=(
        "`half()` makes the copy, and the dtype is kept beside it for the way back. A small object of your own in "
        "place of the tuple would do as well, or a function that `pack` returns and `unpack` calls."
    ),
    scene=stories(
        promises={
            "backward works with float16 copies": saving_functions.passes,
            "each later pass has the same gradients": saving_functions.later_passes,
            "another call starts afresh": saving_functions.afresh,
            "fn runs once and as it does without you": (
                saving_functions.runs_as_it_is,
                saving_functions.returned_itself,
            ),
            "what is kept is float16": saving_functions.kept_in_full,
            "nothing else changes": saving_functions.nothing_else,
            "an exception comes through and no hook is left": saving_functions.fn_raises,
        },
        axes=saving_functions.AXES,
    ),
)
class TestWithHalfSaved:
    """Write `with_half_saved(fn)`: call `fn()` once, without arguments, and return the object that it returns. Of each
    floating-point tensor that autograd saves for backward meanwhile, keep only a float16 copy, which is turned back
    into the old dtype when backward needs it.

    **Example.** float16 has no 1.0004: the nearest number it has is 1.

    >>> w = torch.tensor(1.0004, requires_grad=True)
    >>> y = with_half_saved(lambda: w * w)
    >>> y.backward()
    >>> y.detach(), w.grad  # not 2.0008
    (tensor(1.0008), tensor(2.))

    **Fine print.** All other saved tensors, such as indices and masks, come back as they were; nobody overwrites them.
    `fn()` computes what it computes without you, in the caller's grad mode. It may return anything, may run backward
    passes of its own, and has float32 and float64 tensors, some of which require no grad; it uses no hooks on saved
    tensors, and so does not call your function. The caller runs backward later, perhaps several times.
    """

    reference = halved

    class Mistakes:
        def halved_the_forward(fn):
            """The result of `fn()` is not exact any more. Only the saved tensors are stored as float16: `pack` must not
            change its argument, and the forward pass computes in the old dtype.
            """
            with torch.autocast("cpu", dtype=torch.float16):
                return fn()

        def nothing_packed(fn):
            """The gradients are those of full precision: no saved tensor went through float16. `fn()` has to run inside
            `with saved_tensors_hooks(pack, unpack):`, and `unpack` works with what `pack` returned.
            """
            return fn()

        def some_kept_in_full(fn):
            """Some tensors were rounded, and others were not. Each floating-point tensor that is saved has to go
            through float16, be it an input, a weight, data that requires no grad, or a tensor of a single number.
            """
            return halved(fn, lambda tensor: tensor.is_floating_point() and tensor.requires_grad)

        def some_kept_in_full__2(fn):
            return halved(fn, lambda tensor: tensor.is_floating_point() and tensor.numel() > 1)

        def some_kept_in_full__3(fn):
            return halved(fn, lambda tensor: tensor.dtype == torch.float32)

        def casted_integers(fn):
            """You stored the indices as float16, too, and they came back as different numbers or as floats. Pack only
            tensors with `is_floating_point()`, restore those to their old dtype, and leave all others as they are.
            """
            return halved(fn, lambda tensor: True)

        def dtype_not_restored(fn):
            """Backward got a tensor whose dtype is not the one that forward had saved. `unpack` has to return the old
            dtype, which `pack` should store with the tensor: float64 comes back as float64.
            """
            return halved(fn, back=lambda kept, dtype: kept)

        def dtype_not_restored__2(fn):
            return halved(fn, back=lambda kept, dtype: kept.float() if kept.is_floating_point() else kept)

        def stored_in_full(fn):
            """A tensor of the old dtype is kept, in what `pack` returns or in a closure, and no memory is saved. `pack`
            returns the float16 tensor; the way back belongs in `unpack`.
            """
            return halved(fn, to=lambda tensor: tensor.half().to(tensor.dtype))

        def another_result(fn):
            """You called `fn()`, but what you return is not the object that it returned. Return its result as it is."""
            halved(fn)

        def bfloat16(fn):
            """You kept bfloat16, which has fewer digits. The task asks for float16: `half()`."""
            return halved(fn, to=torch.Tensor.bfloat16)

        def dtypes_in_another_order(fn):
            """You keep the dtypes in a list, and take one out for each tensor that is asked for. Tensors may be asked
            for in another order than they are saved, and again in a second pass: let `pack` return the dtype together
            with the tensor.
            """
            dtypes = []

            def pack(tensor):
                dtypes.append(tensor.dtype)
                return tensor.detach().half() if tensor.is_floating_point() else tensor.detach()

            with saved_tensors_hooks(pack, lambda packed: packed.to(dtypes.pop())):
                return fn()

        def last_dtype(fn):
            """You keep one dtype for all tensors, that of the last one saved. Each tensor has its own: let `pack`
            return it together with the tensor.
            """
            last = [torch.float32]

            def half(tensor):
                last[:] = [tensor.dtype]
                return tensor.half()

            return halved(fn, to=half, back=lambda kept, dtype: kept.to(last[0]) if kept.is_floating_point() else kept)
