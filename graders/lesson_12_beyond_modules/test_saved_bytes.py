"""Exercise 12-saved-bytes."""

from __future__ import annotations

import torch
from torch.autograd.graph import saved_tensors_hooks

from graders.authoring import exercise
from graders.scenes.saved_tensors import saves


def weighed(fn, weight, keep=torch.Tensor.detach, give=lambda kept: kept):
    """The sum of the weights of all tensors that are saved."""
    weights = []

    def pack(tensor):
        weights.append(weight(tensor))
        return keep(tensor)

    with saved_tensors_hooks(pack, give):
        fn()
    return sum(weights)


def size(tensor):
    """Its bytes."""
    return tensor.numel() * tensor.element_size()


@exercise(
    "12-saved-bytes",
    points=2,
    minutes=15,
    difficulty=2,
    title="Weigh what autograd keeps for backward",
    hints=(
        "`torch.autograd.graph.saved_tensors_hooks(pack, unpack)` is a context manager. While it is active, autograd "
        "calls `pack` with each tensor that it saves.",
        "`pack` counts, and returns the tensor, best as `tensor.detach()`. `unpack` gets what `pack` returned, and "
        "gives it back. Then the gradients stay right.",
        "With `with`, the context is left also when `fn` raises. The bytes of a tensor are `numel() * element_size()`.",
    ),
    why=(
        "`pack` is called each time a tensor is saved, so adding up there counts views, and tensors saved twice, as it "
        "should; what it keeps shares the memory and costs nothing. `tensor.nbytes` gives the same number of bytes."
    ),
    scene=saves(hands_on=False, words={"returned": "the bytes are counted", "stay": "the gradients stay right"}),
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
        sizes = []
        with saved_tensors_hooks(lambda tensor: sizes.append(tensor.nbytes) or tensor, lambda tensor: tensor):
            fn()
        return sum(sizes)

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
            """You counted nothing, or only what a backward pass inside `fn` used. `unpack` runs in backward, when a
            saved tensor is used again. Count in `pack`, which runs when a tensor is saved.
            """
            sizes = []
            with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: sizes.append(size(tensor)) or tensor):
                fn()
            return sum(sizes)

        def counted_in_unpack__2(fn):
            """You counted in `unpack`, too. It runs in backward, when a saved tensor is used again, and `fn` may run a
            backward pass. Count in `pack` alone, which runs when a tensor is saved.
            """
            sizes = []
            count = lambda tensor: sizes.append(size(tensor)) or tensor  # noqa: E731
            with saved_tensors_hooks(count, count):
                fn()
            return sum(sizes)

        def counted_once(fn):
            """You counted a tensor that is saved twice only once. `x * x` saves `x` twice, once for each factor, and
            the contract counts both.
            """
            kept = []
            weighed(fn, lambda tensor: kept.append(tensor.detach()) or 0)
            return sum({(tensor.data_ptr(), tensor.shape): size(tensor) for tensor in kept}.values())

        def counted_once__2(fn):
            kept = {}
            weighed(fn, lambda tensor: kept.update({id(tensor): tensor}) or 0)
            return sum(map(size, kept.values()))

        def some_left_out(fn):
            """You left some saved tensors out. Each counts that comes to `pack`: also an index, a mask, and a tensor
            that requires no grad.
            """
            return weighed(fn, lambda tensor: size(tensor) * tensor.is_floating_point())

        def some_left_out__2(fn):
            return weighed(fn, lambda tensor: size(tensor) * tensor.requires_grad)

        def whole_storage(fn):
            """You counted the storage of each tensor. A view or an expanded tensor has another number of elements than
            its storage; the contract counts `numel() * element_size()`.
            """
            return weighed(fn, lambda tensor: tensor.untyped_storage().nbytes())

        def packed_a_number(fn):
            """Backward fails: what `unpack` returns has to be the saved tensor. `pack` has to return it, and `unpack`
            gives it back.
            """
            return weighed(fn, size, keep=lambda tensor: None)

        def packed_a_number__2(fn):
            return weighed(fn, size, keep=size)

        def good_for_one_pass(fn):
            """A second backward pass through the same graph fails or has other gradients. `unpack` may be called
            several times for what `pack` returned: take nothing out of what you keep.
            """
            return weighed(fn, size, keep=lambda tensor: [tensor.detach()], give=list.pop)

        def ran_backward(fn):
            """You ran backward inside your function, and so the caller cannot run it any more. Nothing needs it: `pack`
            is called in forward.
            """
            result = []
            total = weighed(lambda: result.append(fn()), size)
            if isinstance(result[0], torch.Tensor) and result[0].requires_grad:
                result[0].sum().backward()
            return total

        def with_grad_in_any_case(fn):
            """You switched grad mode on. `fn()` runs in the grad mode of the caller: under `torch.no_grad()`, nothing
            is saved.
            """
            with torch.enable_grad():
                return weighed(fn, size)

        def hook_left_behind(fn):
            """Your hooks on saved tensors are still active after your function has returned. Use
            `saved_tensors_hooks(...)` in a `with` statement, which leaves the context.
            """
            sizes = []
            saved_tensors_hooks(lambda tensor: sizes.append(size(tensor)) or tensor, lambda tensor: tensor).__enter__()
            fn()
            return sum(sizes)

        def hook_left_after_exception(fn):
            """When `fn` raised, your hooks on saved tensors stayed active. Use `saved_tensors_hooks(...)` in a `with`
            statement, which leaves the context in any case.
            """
            sizes = []
            context = saved_tensors_hooks(lambda tensor: sizes.append(size(tensor)) or tensor, lambda tensor: tensor)
            context.__enter__()
            fn()
            context.__exit__()
            return sum(sizes)

        def one_slot_for_all(fn, sizes=[]):  # noqa: B006 - the mistake
            """You add to a sum in which the bytes of other calls are, too. Begin each call at 0."""
            weighed(fn, lambda tensor: sizes.append(size(tensor)) or 0)
            return sum(sizes)
