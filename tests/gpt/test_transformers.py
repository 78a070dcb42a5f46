"""examples/gpt against the transformers library: the same weights give the same logits, and it loads our checkpoints.

Skipped if transformers cannot be imported; test_recorded.c has recorded cases.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import transformers

    import hf_models

    transformers.logging.set_verbosity_error()
    MISSING = None
except ImportError as error:
    MISSING = f"no transformers library: {error}"

GPT = pathlib.Path(os.environ["MUSTER_BUILD_DIR"]) / "bin/gpt"
TOKENS = [3, 60, 7, 7, 21, 0, 63, 35, 12, 48, 5, 29, 1, 2, 3, 4, 5, 6, 44, 45]
LIMIT = 2e-5


def our_logits(directory, tokens):
    ids = ",".join(map(str, tokens))
    done = subprocess.run([GPT, "logits", "--load", directory, "--ids", ids], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(done.stderr)
    return torch.tensor([[float(x) for x in line.split()] for line in done.stdout.splitlines()])


class Transformers(unittest.TestCase):
    def compare(self, family, dtype="float32", **changes):
        dtype = getattr(torch, dtype)
        with tempfile.TemporaryDirectory() as directory:
            model = hf_models.make(family, dtype, **changes)
            hf_models.save(model, directory, dtype)
            difference = (our_logits(directory, TOKENS) - hf_models.logits(model, TOKENS)).abs().max().item()
            print(f"{family} {dtype} {changes}: difference at most {difference:.2g}")
            self.assertLess(difference, LIMIT)

    def test_gpt2(self):
        self.compare("gpt2")
        self.compare("gpt2", n_embd=96, n_head=6, n_layer=5, n_inner=200, vocab_size=333)

    def test_gpt2_relu(self):
        self.compare("gpt2", activation_function="relu", layer_norm_epsilon=1e-3)

    def test_opt(self):
        self.compare("opt")
        self.compare("opt", num_hidden_layers=4, hidden_size=64, word_embed_proj_dim=64, num_attention_heads=4, ffn_dim=256)

    def test_16_bit_floats(self):
        for family in ("gpt2", "opt"):
            for dtype in ("float16", "bfloat16"):
                self.compare(family, dtype)

    def test_unsupported_models(self):
        with tempfile.TemporaryDirectory() as directory:
            hf_models.save(hf_models.make("opt", do_layer_norm_before=False), directory)
            with self.assertRaisesRegex(AssertionError, "norms before attention"):
                our_logits(directory, TOKENS)

    def test_transformers_loads_our_checkpoint(self):
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([GPT, "train", "--steps", "5", "--layers", "2", "--width", "32", "--context", "32", "--batch",
                            "2", "--save", directory], check=True, capture_output=True, timeout=60)
            model = transformers.GPT2LMHeadModel.from_pretrained(directory).eval()
            difference = (our_logits(directory, TOKENS) - hf_models.logits(model, TOKENS)).abs().max().item()
            self.assertLess(difference, LIMIT)


if __name__ == "__main__":
    if MISSING:
        print(MISSING)
        sys.exit(77)
    unittest.main()
