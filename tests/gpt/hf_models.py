"""Small models of the transformers library with random weights, including biases and norms."""

import torch
import transformers

GPT2 = dict(vocab_size=64, n_positions=32, n_layer=2, n_embd=16, n_head=2)
OPT = dict(vocab_size=64, max_position_embeddings=32, num_hidden_layers=2, hidden_size=24, num_attention_heads=3,
           ffn_dim=40, word_embed_proj_dim=24)


def make(family, dtype=torch.float32, seed=0, **changes):
    """A model in float32 whose weights are representable in dtype."""
    torch.manual_seed(seed)
    if family == "gpt2":
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**GPT2, **changes}))
    else:
        model = transformers.OPTForCausalLM(transformers.OPTConfig(**{**OPT, **changes}))
    model.eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in name or "ln_" in name else 0.0, 0.2)
            if name.endswith("bias"):
                weight.sub_(weight.mean())
            weight.copy_(weight.to(dtype).to(torch.float32))
    return model


def save(model, directory, dtype=torch.float32):
    model.to(dtype).save_pretrained(directory, safe_serialization=True)
    model.to(torch.float32)


def logits(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0]
