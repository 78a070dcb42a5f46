"""Generation over stages and slices gives the tokens of one process."""

import pathlib
import tempfile
import unittest

from gpt_kit import TINY, command, output, start


class Generate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.model = pathlib.Path(directory.name) / "model"
        output(command(None, "train", "--steps", 60, "--save", cls.model, *TINY))

    def text(self, mesh, *extra):
        # More than the context of 32, so that there are several segments.
        return output(command(mesh, "generate", "--load", self.model, "--tokens", 90, *extra, run=["--no-prefix"]))

    def test_most_likely_tokens_of_every_split(self):
        one = self.text(None, "--temperature", 0)
        self.assertEqual(len(one), len("The ") + 90 + 1)
        for mesh in ("pp=2", "pp=4", "pp=8", "tp=2", "tp=4", "tp=8", "pp=2,tp=2", "tp=2,pp=4", "pp=2,tp=4"):
            with self.subTest(mesh=mesh):
                self.assertEqual(self.text(mesh, "--temperature", 0), one)

    def test_sampled_tokens_of_every_number_of_stages(self):
        # Stages compute the same bits as one process. Slices round differently, which may change a sample.
        one = self.text(None, "--temperature", 1)
        self.assertNotEqual(one, self.text(None, "--temperature", 1, "--seed", 2))
        for mesh in ("pp=2", "pp=4"):
            self.assertEqual(self.text(mesh, "--temperature", 1), one)

    def test_prompts_of_all_lengths(self):
        for ids in ("84", "84,104,101", ",".join(["101"] * 32), ",".join(["101"] * 33), ",".join(["32"] * 70)):
            extra = ["--ids", ids, "--tokens", 5, "--temperature", 0]
            one = self.text(None, *extra)
            self.assertEqual(len(one.split()), ids.count(",") + 6)
            self.assertEqual(self.text("pp=2,tp=2", *extra), one)

    def test_texts_do_not_depend_on_their_batch(self):
        # Prompts of one byte, of several, of the length of the context and longer; 9 texts, so that one batch is not full.
        prompts = ["T", "This License", "a", "b" * 32, "c" * 33, "The " * 25, "d", "You may", "Each"]
        extra = ["--tokens", 50, "--temperature", 0]
        alone = [self.text(None, "--prompt", prompt, *extra) for prompt in prompts]
        heads = [prompt[:40] + "..." * (len(prompt) > 40) for prompt in prompts]
        wanted = "".join(f"--- {i + 1}: {head}\n{text}" for i, (head, text) in enumerate(zip(heads, alone)))
        file = self.model / "prompts"
        file.write_text("\n".join(prompts[:4]) + "\n\n\r\n" + "\r\n".join(prompts[4:]))
        for mesh, batch in ((None, 4), ("pp=4", 2), ("tp=4", 3), ("pp=2,tp=2", 9)):
            with self.subTest(mesh=mesh, batch=batch):
                self.assertEqual(self.text(mesh, "--prompts", file, "--batch", batch, *extra), wanted)

    def test_samples_of_a_prompt_differ(self):
        extra = ["--ids", "84,104", "--temperature", 1, "--samples", 5]
        first = self.text(None, *extra, "--samples", 1).splitlines()
        each = self.text(None, *extra, "--batch", 1).splitlines()
        self.assertEqual(each[:1], first)
        self.assertEqual(len(set(each)), 5)
        for mesh in (None, "pp=2", "pp=8"):
            self.assertEqual(self.text(mesh, *extra).splitlines(), each)

    def test_dp_is_refused(self):
        process = start(command("dp=2", "generate", "--load", self.model))
        _, err = process.communicate(timeout=60)
        self.assertIn("supports pp and tp only", err)
        self.assertNotEqual(process.returncode, 0)


if __name__ == "__main__":
    unittest.main()
