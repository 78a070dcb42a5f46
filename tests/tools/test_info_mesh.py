"""muster info --mesh: who is where."""

import json
import re
import unittest

from harness import ToolTest

THREE = """\
mesh dp=2,pp=2,tp=2: 8 ranks

            tp=0  tp=1
 dp=0 pp=0     0     1
      pp=1     2     3
 dp=1 pp=0     4     5
      pp=1     6     7

groups
  dp     4 groups of 2  0,4  1,5  2,6  3,7
  pp     4 groups of 2  0,2  1,3  4,6  5,7
  tp     4 groups of 2  0,1  2,3  4,5  6,7

groups of dimensions together
  dp,pp  2 groups of 4  0,2,4,6  1,3,5,7
  dp,tp  2 groups of 4  0,1,4,5  2,3,6,7
  pp,tp  2 groups of 4  0-3  4-7
"""


class InfoMesh(ToolTest):
    def draw(self, shape, *options):
        rc, out, err = self.muster("info", "--mesh", shape, *options)
        self.assertEqual((rc, err), (0, b""), shape)
        return out.decode()

    def test_three_dimensions(self):
        self.assertEqual(self.draw("dp=2,pp=2,tp=2"), THREE)

    def test_wide_ones_are_cut(self):
        out = self.draw("dp=4,tp=32")
        self.assertLessEqual(max(map(len, out.splitlines())), 100)
        for rank in range(128):
            self.assertRegex(out, rf"(?m)^.*  {rank}\b")
        self.assertIn("tp=31", out)
        self.assertIn("tp  4 groups of 32   0-31  32-63  64-95  96-127\n", out)
        self.assertIn("cp,tp     4 groups of 16  0-15  16-31  32-47  48-63\n", self.draw("dp=2,pp=2,cp=4,tp=4"))

    def test_long_groups_are_shortened(self):
        out = self.draw("dp=8,tp=8")
        self.assertIn("dp  8 groups of 8   0,8,…,56  1,9,…,57", out)
        self.assertIn("0-3,16-19", self.draw("dp=2,pp=2,cp=2,tp=4"))
        self.assertIn("… and 1936 more", self.draw("a=2,b=2000"))

    def test_lists_that_do_not_fit_say_so(self):
        out = self.draw("a=300,b=2,c=2")
        self.assertLessEqual(max(map(len, out.splitlines())), 100)
        lists = re.findall(r"(?m)^.* ([\d,]+),… \((\d+) more\)$", out)
        self.assertEqual(len(lists), 2, out)
        for first, (shown, more) in zip((0, 2), lists):
            ranks = [4 * a + c for a in range(300) for c in (first, first + 1)]
            shown = list(map(int, shown.split(",")))
            self.assertGreater(len(shown), 15)
            self.assertEqual((shown, len(shown) + int(more)), (ranks[: len(shown)], 600))
        self.assertIn("  a,c  2 groups of 16  0,1,4,5,8,9,12,13,16,17,20,21,24,25,28,29\n", self.draw("a=8,b=2,c=2"))

    def test_without_names(self):
        out = self.draw("2,3")
        self.assertIn("mesh dim0=2,dim1=3: 6 ranks\n", out)
        self.assertIn(" dim0=1       3       4       5\n", out)
        self.assertIn("mesh dim0=1: 1 rank\n", self.draw("1"))
        self.assertEqual(json.loads(self.draw("2,3", "--json"))["names"], ["0", "1"])

    def test_json(self):
        said = json.loads(self.draw("dp=2,tp=4", "--json"))
        self.assertEqual((said["shape"], said["names"], said["coordinates"][5]), ([2, 4], ["dp", "tp"], [1, 1]))
        self.assertEqual(said["groups"]["tp"], [[0, 1, 2, 3], [4, 5, 6, 7]])
        self.assertEqual(said["groups"]["dp"], [[0, 4], [1, 5], [2, 6], [3, 7]])

    def test_mistakes(self):
        for shape, part in (
            ("", "no size that is a number; write a mesh as dp=2,tp=4"),
            ("dp=99999999999", "'dp=99999999999' in the mesh has a size above 2147483647"),
            ("dp=two", "'dp=two' in the mesh has no size that is a number"),
            ("dp=0", "dimension 0 of the mesh has size 0; give every dimension a size of 1 or more"),
            ("dp=2,tp=-2", "dimension 1 of the mesh has size -2"),
            ("dp=2,dp=2", "dimensions 0 and 1 of the mesh are both named 'dp'"),
            ("dp=2,4", "'4' has no name, but the part before it has one"),
            ("=2", "no name before '='"),
            ("7=2", "it is a number"),
            ("dp=99999,tp=99999", "a product above 2147483647"),
            ("dp=70000", "the mesh has 70000 ranks, but at most 65536 can be drawn"),
        ):
            with self.subTest(shape):
                rc, out, err = self.muster("info", "--mesh", shape)
                self.assertEqual((rc, out), (2, b""))
                self.assertIn(part, err.decode())
                self.assertEqual(err.count(b"\n"), 1)


if __name__ == "__main__":
    unittest.main()
