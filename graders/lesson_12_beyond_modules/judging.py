"""What several exercises of lesson 12 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

from graders.authoring import Kind, Seen, refuse


def callers_hooks_active(packs: Seen, when: str) -> None:
    """The hooks on saved tensors that were active before a call are active after it, and no others.

    `packs` is what `packs_of_the_caller` saw; `when` begins the sentence.
    """
    if packs.value != 2:
        refuse(f"{when}the hooks on saved tensors that were active before are not those that are active now",
               Kind.HOOK_GONE)  # fmt: skip
