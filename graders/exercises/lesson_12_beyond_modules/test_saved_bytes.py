"""Exercise 12-saved-bytes."""

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import saving_functions


def size(tensor):
    """Its bytes."""
    return tensor.numel() * tensor.element_size()


def weighed(fn, weight=size, keep=torch.Tensor.detach, give=lambda kept: kept):
    """The sum of the weights of all tensors that are saved."""
    weights = []

    def pack(tensor):
        weights.append(weight(tensor))
        return keep(tensor)

    with saved_tensors_hooks(pack, give):
        fn()
    return sum(weights)


@exercise(
    "12-saved-bytes",
    points=2,
    minutes=15,
    difficulty=2,
    title="Weigh what autograd keeps for backward",
    hints=(
        "`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` is a context manager. While it is active, autograd "
        "calls `pack` with each tensor that it saves.",
        "`pack` counts, and returns the tensor, preferably as `tensor.detach()`. `unpack` gets what `pack` returned, "
        "and gives it back. Then the gradients stay right.",
        "With `with`, the context is left even when `fn` raises. The bytes of a tensor are `numel() * element_size()`.",
    ),
    why=(
        "`pack` is called each time a tensor is saved, so adding up there counts views, and tensors saved twice, as it "
        "should; what it keeps shares the memory and costs nothing. `tensor.nbytes` gives the same number of bytes."
    ),
    scene=stories(
        promises={
            "the bytes are counted": (saving_functions.counted, saving_functions.of_a_parameter),
            "the gradients stay right": (saving_functions.passes, saving_functions.later_passes),
            "another call starts afresh": (saving_functions.numbers_of_two, saving_functions.afresh),
            "fn runs once and as it does without you": saving_functions.runs_as_it_is,
            "nothing else changes": saving_functions.nothing_else,
            "an exception comes through and no hook is left": saving_functions.fn_raises,
        },
        axes=saving_functions.AXES,
    ),
)
class TestSavedBytes:
    """Write `saved_bytes(fn)`: call `fn()` once, without arguments, and return, as an `int`, how many bytes of tensors
    autograd saves for backward while it runs. Each tensor that is saved counts `numel() * element_size()`.

    **Example.**

    >>> x = torch.ones(100, requires_grad=True)
    >>> saved_bytes(lambda: torch.relu(x))  # relu saves its result
    400
    >>> saved_bytes(lambda: x + 1), saved_bytes(lambda: x * x)
    (0, 800)

    **Fine print.** A tensor that is saved twice counts twice, and a view or an expanded tensor with its own `numel()`.
    Under `torch.no_grad()`, nothing is saved. `fn` may return anything, and may run backward passes of its own; it uses
    no hooks on saved tensors, and so does not call your function. The caller runs backward later, perhaps several
    times, and gets the right gradients. Nobody overwrites what has been saved.
    """

    def reference(fn):
        return weighed(fn, lambda tensor: tensor.nbytes)

    class Mistakes:
        def elements_not_bytes(fn):
            """You counted elements. An element of float32 has 4 bytes, one of float64 or int64 has 8: multiply each
            `numel()` by `element_size()`.
            """
            return weighed(fn, torch.Tensor.numel)

        def four_bytes_each(fn):
            """You counted 4 bytes for each element. That is right for float32 only: ask each tensor for its
            `element_size()`.
            """
            return weighed(fn, lambda tensor: 4 * tensor.numel())

        def counted_in_unpack(fn):
            """You counted in `unpack`, which runs in backward, when a saved tensor is used again, and so also in a pass
            that `fn` itself runs. Count in `pack` alone, which runs when a tensor is saved.
            """
            sizes = []
            weighed(fn, give=lambda tensor: sizes.append(size(tensor)) or tensor)
            return sum(sizes)

        def counted_in_unpack__2(fn):
            sizes = []
            return weighed(fn, give=lambda tensor: sizes.append(size(tensor)) or tensor) + sum(sizes)

        def counted_once(fn):
            """You counted a tensor that is saved twice only once. `x * x` saves `x` twice, once for each factor, and
            the contract counts both.
            """
            sizes = {}
            weighed(fn, lambda tensor: sizes.update({tensor.data_ptr(): size(tensor)}) or 0)
            return sum(sizes.values())

        def whole_storage(fn):
            """You counted the storage of each tensor. A view or an expanded tensor does not have as many elements as
            its storage; the contract counts `numel() * element_size()`.
            """
            return weighed(fn, lambda tensor: tensor.untyped_storage().nbytes())

        def packed_a_number(fn):
            """Backward fails: what `unpack` returns has to be the saved tensor. `pack` has to return it, and `unpack`
            gives it back.
            """
            return weighed(fn, keep=lambda tensor: None)

        def good_for_one_pass(fn):
            """A second backward pass through the same graph fails, or gives different gradients. `unpack` may be called
            several times for what `pack` returned: take nothing out of what you keep.
            """
            kept = {}

            def put(tensor):
                key = object()
                kept[key] = tensor.detach()
                return key

            return weighed(fn, keep=put, give=kept.pop)

        def called_twice(fn):
            """You called `fn()` twice. Once is enough: call it inside the `with` block, and nowhere else."""
            fn()
            return weighed(fn)

        def outside_the_hooks(fn):
            """Nothing was counted: `fn()` has to run inside `with saved_tensors_hooks(pack, unpack):`, and with its
            parentheses.
            """
            fn()
            return 0

        def outside_the_hooks__2(fn):
            return 0

        def bits(fn):
            """You counted bits, or several times the bytes. The bytes of a tensor are `numel() * element_size()`."""
            return 8 * weighed(fn)

        def some_left_out(fn):
            """You left some tensors out: those that require no grad, those that are not floating-point, or parameters.
            Data, masks, indices and weights that are saved count, too.
            """
            return weighed(fn, lambda tensor: size(tensor) if tensor.requires_grad else 0)

        def some_left_out__2(fn):
            return weighed(fn, lambda tensor: size(tensor) if tensor.is_floating_point() else 0)

        def some_left_out__3(fn):
            return weighed(fn, lambda tensor: 0 if isinstance(tensor, nn.Parameter) else size(tensor))

        def something_else_kept(fn):
            """Your count is right, but backward computes with other numbers than those saved. What `pack` returns,
            `unpack` has to turn back into the very values: keep the tensor.
            """
            return weighed(fn, keep=torch.zeros_like)
