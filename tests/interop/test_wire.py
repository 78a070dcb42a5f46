"""Byte-exact tests of the store's wire for what no recording has: every row of the protocol's table."""

import unittest

from store_wire import VALIDATE, WireTest, number, text, texts

READY, NOT_READY, CANCELLED, WATCHING = b"\0", b"\1", b"\1", b"\3"
UPDATED, CREATED, DELETED = b"\0", b"\1", b"\2"


class DialectA(WireTest):
    """PyTorch 1.13: no opening."""

    def test_operations(self):
        a = self.connect()
        a.send(b"\0" + text("/k") + text("v1"))
        self.expect(a, b"\2" + text("/k"), text("v1"))
        self.expect(a, b"\3" + text("/n") + number(5), number(5))
        self.expect(a, b"\3" + text("/n") + number(-7), number(-2))
        self.expect(a, b"\2" + text("/n"), text("-2"))
        self.expect(a, b"\4" + texts("/k", "/n"), READY)
        self.expect(a, b"\4" + texts("/k", "/zz"), NOT_READY)
        self.expect(a, b"\5" + texts("/k", "/n"), READY)
        self.expect(a, b"\6", number(2))
        self.expect(a, b"\x08" + text("/k"), number(1))
        self.expect(a, b"\x08" + text("/k"), number(0))
        self.expect(a, b"\6", number(1))

    def test_compare_set(self):
        compare_set(self, self.connect(), b"\1", b"\2")

    def test_lists_of_nothing(self):
        a = self.connect()
        self.expect(a, b"\5" + texts(), READY)
        self.expect(a, b"\4" + texts(), READY)

    def test_watch_key(self):
        """The second connection of a 1.13 client is told of each change of a key it watches."""
        main, second = self.connect(), self.connect()
        self.expect(second, b"\7" + text("/w"), WATCHING)
        main.send(b"\0" + text("/w") + text("one"))
        self.expect(second, b"", CREATED + text("/w") + text("") + text("one"))
        main.send(b"\0" + text("/w") + text("two"))
        self.expect(second, b"", UPDATED + text("/w") + text("one") + text("two"))
        main.send(b"\0" + text("/other") + text("not watched"))
        self.expect(main, b"\x08" + text("/w"), number(1))
        self.expect(second, b"", DELETED + text("/w") + text("two") + text(""))
        self.expect(main, b"\3" + text("/w") + number(3), number(3))
        self.expect(second, b"", CREATED + text("/w") + text("") + text("3"))
        self.expect(main, b"\1" + text("/w") + text("3") + text("4"), text("4"))
        self.expect(second, b"", UPDATED + text("/w") + text("3") + text("4"))
        self.settle()
        self.assertTrue(second.is_quiet())

    def test_watchers_learn_of_newer_clients_changes(self):
        second, c = self.connect(), self.connect(VALIDATE)
        self.expect(second, b"\7" + text("/a"), WATCHING)
        self.expect(second, b"\7" + text("/b"), WATCHING)
        c.send(b"\x09" + text("/a") + text("x"))
        self.expect(second, b"", CREATED + text("/a") + text("") + text("x"))
        c.send(b"\x09" + text("/a") + text("y"))
        self.expect(second, b"", UPDATED + text("/a") + text("x") + text("xy"))
        c.send(b"\x0b" + number(2) + text("/a") + text("1") + text("/b") + text("2"))
        self.expect(second, b"", UPDATED + text("/a") + text("xy") + text("1"))
        self.expect(second, b"", CREATED + text("/b") + text("") + text("2"))

    def test_newer_opcodes_end_it(self):
        for opcode in range(9, 19):
            self.assertTrue(self.connect(bytes([opcode]) + text("/k")).is_ended(), opcode)

    def test_add_to_a_word_ends_it(self):
        a = self.connect(b"\0" + text("/k") + text("word"))
        a.send(b"\3" + text("/k") + number(1))
        self.assertTrue(a.is_ended())


def compare_set(test, connection, opcode, get):
    """All cases of COMPARE_SET."""
    def case(key, expected, desired, reply):
        test.expect(connection, opcode + text(key) + text(expected) + text(desired), text(reply))

    case("/k", "x", "y", "x")  # missing, something expected: nothing is stored
    test.expect(connection, b"\4" + texts("/k") if opcode == b"\1" else b"\5" + texts("/k"), NOT_READY)
    case("/k", "", "y", "y")
    test.expect(connection, get + text("/k"), text("y"))
    case("/k", "no", "z", "y")
    case("/k", "y", "z", "z")
    test.expect(connection, get + text("/k"), text("z"))
    case("/k", "z", "", "")
    case("/k", "", "w", "w")  # the empty value is a value
    test.expect(connection, get + text("/k"), text("w"))


class DialectC(WireTest):
    """PyTorch 2.2 and later: VALIDATE first."""

    def setUp(self):
        super().setUp()
        self.c = self.connect(VALIDATE)

    def test_compare_set(self):
        compare_set(self, self.c, b"\2", b"\3")

    def test_many_at_once(self):
        self.c.send(b"\x0b" + number(3) + text("/a") + text("1") + text("/b") + text("") + text("/c") + text("333"))
        self.expect(self.c, b"\x0a" + texts("/c", "/a", "/b", "/c"), text("333") + text("1") + text("") + text("333"))
        self.expect(self.c, b"\x07", number(3))
        self.c.send(b"\x0b" + number(0))
        self.expect(self.c, b"\x0a" + texts() + b"\x0dpong", b"pong")

    def test_append(self):
        self.c.send(b"\x09" + text("/a") + text("xy"))
        self.c.send(b"\x09" + text("/a") + text(b"\0z"))
        self.expect(self.c, b"\3" + text("/a"), text(b"xy\0z"))

    def test_queue(self):
        push, pop, length = b"\x0e" + text("/q"), b"\x0f" + text("/q"), b"\x10" + text("/q")
        self.expect(self.c, length, number(0))
        self.expect(self.c, pop, number(0))
        self.c.send(push + text("one") + push + text("") + push + text("three"))
        self.expect(self.c, length, number(3))
        self.expect(self.c, pop, number(3) + text("one"))
        self.expect(self.c, pop, number(2) + text(""))
        self.expect(self.c, b"\5" + texts("/q"), READY)
        self.expect(self.c, pop, number(1) + text("three"))
        self.expect(self.c, pop, number(0))
        self.expect(self.c, b"\5" + texts("/q"), NOT_READY)

    def test_queue_wakes_a_waiting_pop(self):
        other = self.connect(VALIDATE + b"\6" + texts("/q"))
        self.settle()
        self.assertTrue(other.is_quiet())
        self.c.send(b"\x0e" + text("/q") + text("x"))
        self.assertEqual(other.receive(1), READY)
        self.expect(other, b"\x0f" + text("/q"), number(1) + text("x"))

    def test_barrier_counts_and_is_not_reset(self):
        barrier = b"\x12" + text("/b") + number(3)
        others = [self.connect(VALIDATE + barrier) for _ in range(2)]
        self.settle()
        self.assertTrue(all(other.is_quiet() for other in others))
        self.expect(self.c, barrier, READY)
        self.assertEqual([other.receive(1) for other in others], [READY, READY])
        self.expect(self.c, barrier, READY)
        self.expect(self.c, b"\x12" + text("/b") + number(5), READY)
        self.expect(self.c, b"\x12" + text("/one") + number(1), READY)

    def test_list_keys(self):
        self.expect(self.c, b"\x11", number(0))
        self.c.send(b"\1" + text("/only") + text("v"))
        self.expect(self.c, b"\x11", number(1) + text("/only"))
        self.c.send(b"\1" + text("init/") + text("1"))
        got = self.c.ask(b"\x11", 8 + 8 + 5 + 8 + 5)
        self.assertIn(got, (number(2) + text("/only") + text("init/"), number(2) + text("init/") + text("/only")))

    def test_cancel(self):
        self.expect(self.c, b"\x0c", CANCELLED)
        self.c.send(b"\6" + texts("/never"))
        self.settle()
        self.expect(self.c, b"\x0c", CANCELLED)
        self.expect(self.c, b"\x0dping", b"ping")

    def test_pipelined_in_one_write(self):
        self.expect(self.c,
                    b"\1" + text("/k") + text("v") + b"\3" + text("/k") + b"\4" + text("/n") + number(2) + b"\x07" +
                    b"\6" + texts("/k", "/n") + b"\5" + texts("/zz") + b"\x08" + text("/k") + b"\x0dabcd",
                    text("v") + number(2) + number(2) + READY + NOT_READY + number(1) + b"abcd")

    def test_the_opening_may_come_in_pieces(self):
        c = self.connect()
        for byte in VALIDATE + b"\x0dabcd":
            c.send(bytes([byte]))
            self.settle()
        self.assertEqual(c.receive(4), b"abcd")

    def test_a_missing_key_ends_it(self):
        self.c.send(b"\3" + text("/nowhere"))
        self.assertTrue(self.c.is_ended())
        self.assertTrue(self.connect(VALIDATE + b"\x0a" + texts("/nowhere")).is_ended())


class Together(WireTest):
    """Clients of all dialects on one server, sharing keys."""

    def test_share_keys(self):
        a, c = self.connect(), self.connect(VALIDATE)
        a.send(b"\0" + text("/from a") + text("1"))
        self.settle()
        self.expect(c, b"\3" + text("/from a"), text("1"))
        c.send(b"\1" + text("/from c") + text("2"))
        self.settle()
        self.expect(a, b"\2" + text("/from c"), text("2"))
        for connection, opcode, value in ((a, b"\3", 1), (c, b"\4", 2), (a, b"\3", 3), (c, b"\4", 4)):
            self.expect(connection, opcode + text("/sum") + number(1), number(value))
        self.expect(a, b"\6", number(3))
        self.expect(c, b"\x07", number(3))

    def test_wake_each_other(self):
        waiting = {"a": self.connect(b"\5" + texts("/x", "/y")), "c": self.connect(VALIDATE + b"\6" + texts("/y", "/x"))}
        a, c = self.connect(), self.connect(VALIDATE)
        a.send(b"\0" + text("/x") + text(""))
        self.settle()
        self.assertTrue(waiting["a"].is_quiet() and waiting["c"].is_quiet())
        c.send(b"\x09" + text("/y") + text("v"))
        self.assertEqual((waiting["a"].receive(1), waiting["c"].receive(1)), (READY, READY))

    def test_workers_are_counted_under_one_key(self):
        """With wait-for-workers each client adds 1 to "init/", which has no slash in front."""
        self.expect(self.connect(), b"\3" + text("init/") + number(1), number(1))
        self.expect(self.connect(VALIDATE), b"\4" + text("init/") + number(1), number(2))


if __name__ == "__main__":
    unittest.main()
