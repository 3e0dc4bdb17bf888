from __future__ import annotations

import os

import pytest

from graders.sandbox.outside.streams import Incoming, Outgoing, ThreadedIncoming, ThreadedOutgoing

KINDS = [(Incoming, Outgoing), (ThreadedIncoming, ThreadedOutgoing)]


@pytest.mark.parametrize(("incoming", "outgoing"), KINDS)
def test_what_goes_in_comes_out_and_then_the_end(incoming: type[Incoming], outgoing: type[Outgoing]) -> None:
    read_end, write_end = os.pipe()
    reader, writer = incoming(read_end), outgoing(write_end)
    assert not reader.wait(0.01)
    sent, left, found = bytes(range(256)) * 2000, memoryview(bytes(range(256)) * 2000), b""
    while left:
        if writer.wait(0.01):
            left = left[writer.write(left) :]
        while reader.wait(0.001):
            found += reader.read(1000)
    assert writer.wait(5)
    writer.close()
    writer.close()
    while reader.wait(5) and (part := reader.read(1000)):
        found += part
    assert found == sent
    assert reader.wait(5)
    assert reader.read(10) == b""
    reader.close()


@pytest.mark.parametrize(("incoming", "outgoing"), KINDS)
def test_a_pipe_that_nobody_empties_is_waited_for_by_the_clock(
    incoming: type[Incoming], outgoing: type[Outgoing]
) -> None:
    read_end, write_end = os.pipe()
    writer = outgoing(write_end)
    for _ in range(40):  # of 64 KiB each: more than a pipe holds
        if not writer.wait(0.05):
            break
        writer.write(memoryview(bytes(1 << 16)))
    assert not writer.wait(0.05)
    os.close(read_end)
    assert writer.wait(5)
    with pytest.raises(BrokenPipeError):
        writer.write(memoryview(b"more"))
    writer.close()
