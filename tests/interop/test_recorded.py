"""Replays what real PyTorch clients sent, byte for byte, and expects what PyTorch's servers answered.

recorded/ holds the traffic of five versions, one block per call: "C>S" the client's bytes, "S>C" the server's.
"""

import ast
import pathlib
import re
import struct
import unittest

from store_wire import VALIDATE, WireTest

RECORDED = pathlib.Path(__file__).resolve().parent / "recorded"
EVENT = re.compile(r"^    conn(\d+) (OPEN|C>S|S>C) (\d+) ([0-9a-f ]*?) *(\.\.\.)?$")
RAW = re.compile(r"^raw (.+?) ((?:[0-9a-f]{2} ?)+)-> (.*)$")
LIST_KEYS = b"\x11"
CANCEL_WAIT = b"\x0c"


class Event:
    def __init__(self, match):
        self.connection, self.kind, self.length = int(match[1]), match[2], int(match[3])
        self.data = bytes.fromhex(match[4])
        self.is_cut = match[5] is not None


def read(path):
    """The blocks of a recording as (title, events), and its raw lines as (label, bytes, outcome)."""
    blocks, raws = [], []
    for line in path.read_text().splitlines():
        event, raw = EVENT.match(line), RAW.match(line)
        if line.startswith("## "):
            blocks.append((line[3:], []))
        elif event:
            blocks[-1][1].append(Event(event))
        elif raw:
            raws.append((raw[1], bytes.fromhex(raw[2]), raw[3]))
        elif not line.startswith("torch "):
            raise AssertionError(f"{path.name}: cannot read {line!r}")
    return blocks, raws


def listed(data):
    """The keys in a reply of LIST_KEYS, sorted: their order is nobody's business."""
    (n,), data, keys = struct.unpack_from("<q", data), data[8:], []
    while data:
        (length,) = struct.unpack_from("<Q", data)
        keys.append(data[8:8 + length])
        data = data[8 + length:]
    return n, sorted(keys)


class Replay(WireTest):
    """One test for each recording, made below."""

    def replay(self, path, whole):
        """whole: a wait and its cancelling go out in one piece, as recorded; else apart, as they were sent."""
        blocks, raws = read(path)
        self.assertGreater(len(blocks), 10)
        connections, asked, compared = {}, {}, 0
        for title, events in blocks:
            if any(event.is_cut and event.kind == "C>S" for event in events):
                continue
            for event in events:
                if event.kind == "OPEN":
                    connections[event.connection] = self.connect()
                elif event.kind == "C>S":
                    self.assertEqual(len(event.data), event.length, title)
                    self.send(connections[event.connection], event.data, whole)
                    asked[event.connection] = event.data
                else:
                    got = connections[event.connection].receive(event.length)
                    self.compare(event, asked[event.connection], got, title)
                    compared += 1
        self.assertGreater(compared, 10)
        for connection in connections.values():
            self.assertTrue(connection.is_quiet(), "bytes that no recording has")
        for label, data, outcome in raws:
            with self.subTest(raw=label):
                self.misuse(path.stem, label, data, outcome)

    def send(self, connection, data, whole):
        if not whole and len(data) > 1 and data.endswith(CANCEL_WAIT) and data[0] in (0x06, 0x12):
            connection.send(data[:-1])
            self.settle()
            self.assertTrue(connection.is_quiet(), "answered before it was called off")
            data = CANCEL_WAIT
        connection.send(data)

    def compare(self, event, request, got, title):
        self.assertEqual(len(got), event.length, title)
        if request == LIST_KEYS:
            self.assertEqual(listed(got), listed(event.data), title)
        else:
            self.assertEqual(got[:len(event.data)].hex(" "), event.data.hex(" "), title)

    def misuse(self, version, label, data, outcome):
        """What was no client's doing. Ours speaks both dialects, so it takes what either server took."""
        old = version == "torch-1.13"
        if data.startswith(VALIDATE) == old or (not old and label.startswith("old GET")):
            return
        connection = self.connect(data)
        if outcome.startswith("b'") and outcome != "b''" and not label.startswith("GET missing"):
            wanted = ast.literal_eval(outcome)
            self.assertEqual(connection.receive(len(wanted)), wanted)
        elif outcome.startswith("(no reply"):
            self.assertTrue(connection.is_quiet(0.1) or connection.is_ended())
        else:  # ended there; a libuv server answers a missing key with nothing, the others end it, and so do we
            self.assertTrue(connection.is_ended())


def add_tests():
    for path in sorted(RECORDED.glob("torch-*.txt")):
        name = re.sub(r"\W", "_", path.stem)
        setattr(Replay, f"test_{name}", lambda self, path=path: self.replay(path, False))
        setattr(Replay, f"test_{name}_in_one_piece", lambda self, path=path: self.replay(path, True))


class Recordings(unittest.TestCase):
    def test_all_five_are_there(self):
        self.assertEqual(len(list(RECORDED.glob("torch-*.txt"))), 5)

    def test_every_operation_of_a_client_is_exercised(self):
        first = set()
        for path in RECORDED.glob("torch-2*.txt"):
            for _, events in read(path)[0]:
                first |= {event.data[0] for event in events if event.kind == "C>S"}
        self.assertEqual(first, set(range(19)) - {12, 13})  # those two stand behind others


add_tests()
if __name__ == "__main__":
    unittest.main()
