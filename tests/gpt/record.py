#!/usr/bin/env python3
"""Writes tests/gpt/recorded: weights, tokens, and the logits of the transformers library."""

import pathlib

import safetensors.torch
import torch

from hf_models import logits, make, save

HERE = pathlib.Path(__file__).parent / "recorded"
TOKENS = [3, 60, 7, 7, 21, 0, 63, 35, 12, 48, 5, 29]

for name, family, dtype, changes in (
    ("gpt2", "gpt2", torch.float32, {}),
    ("gpt2_bf16", "gpt2", torch.bfloat16, dict(n_embd=24, n_head=3, activation_function="relu")),
    ("opt", "opt", torch.float32, {}),
    ("opt_f16", "opt", torch.float16, dict(ffn_dim=96)),
):
    model = make(family, dtype, **changes)
    save(model, HERE / name, dtype)
    for extra in ("generation_config.json",):
        (HERE / name / extra).unlink(missing_ok=True)
    case = {"tokens": torch.tensor(TOKENS, dtype=torch.float32), "logits": logits(model, TOKENS).contiguous()}
    safetensors.torch.save_file(case, HERE / name / "case.safetensors")
