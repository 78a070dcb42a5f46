"""One rank of a pipeline that generates tokens in the order of FlexLLMGen's distributed mode: writes a digest of what each case received.

  flexllmgen.py CASE…   with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; BACKEND is muster, or gloo to compare

Each rank is a stage with some layers of a small decoder. The stages work on `inner` batches in turns, so that all have work, and on
several micro-batches of each. Hidden states go to the next stage, new tokens from the last stage to the first. In each step a stage
sends the result of its previous step and receives the input of this one: stage 0 receives first, the others send first.

Each rank also computes the tokens without the others and compares all that it receives.
"""

import functools
import hashlib
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

BACKEND = os.environ.get("BACKEND", "muster")
LAYERS, HIDDEN, HEADS, VOCABULARY = 5, 32, 4, 50
PROMPT, TOKENS, BATCH, MICRO_BATCHES, ROUNDS = 6, 4, 3, 2, 2


def random(*shape):
    return torch.randn(shape) * 0.3


class Embedding:
    def __init__(self):
        self.tokens, self.positions = random(VOCABULARY, HIDDEN), random(PROMPT + TOKENS, HIDDEN)

    def __call__(self, ids, cache):
        at = cache.setdefault(self, 0)
        cache[self] += ids.shape[1]
        return (self.tokens[ids] + self.positions[at : at + ids.shape[1]]).half()


class Layer:
    """Attention to the keys and values of earlier tokens, then two linear maps."""

    def __init__(self):
        self.attention, self.out = random(HIDDEN, 3 * HIDDEN), random(HIDDEN, HIDDEN)
        self.up, self.down = random(HIDDEN, 64), random(64, HIDDEN)

    def __call__(self, hidden, cache):
        x = hidden.float()
        parts = (torch.layer_norm(x, (HIDDEN,)) @ self.attention).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        if self in cache:
            key, value = torch.cat([cache[self][0], key], 2), torch.cat([cache[self][1], value], 2)
        cache[self] = key, value
        weights = query @ key.transpose(2, 3) / (HIDDEN / HEADS) ** 0.5
        future = torch.ones(weights.shape[2:], dtype=torch.bool).triu(weights.shape[3] - weights.shape[2] + 1)
        mixed = weights.masked_fill(future, -torch.inf).softmax(-1) @ value
        x = x + mixed.transpose(1, 2).flatten(2) @ self.out
        return (x + torch.relu(torch.layer_norm(x, (HIDDEN,)) @ self.up) @ self.down).half()


class Output:
    """The most probable next token."""

    def __init__(self):
        self.weights = random(HIDDEN, VOCABULARY)

    def __call__(self, hidden, _cache):
        return (hidden[:, -1:].float() @ self.weights).argmax(-1)


def stages_of(size):
    """The layers of each stage; the first stages have one more if the stages do not divide the layers."""
    torch.manual_seed(5)
    layers, stages = [Layer() for _ in range(LAYERS)], []
    for stage in range(size):
        count = LAYERS // size + (stage < LAYERS % size)
        stages.append(layers[:count])
        layers = layers[count:]
    stages[0].insert(0, Embedding())
    stages[-1].append(Output())
    return stages


def prompts(batch):
    return torch.randint(VOCABULARY, (BATCH, PROMPT), generator=torch.Generator().manual_seed(batch))


@functools.lru_cache(maxsize=None)
def alone(size, batch):
    """The inputs of each stage for each token of a batch, and the result of the last stage."""
    data, cache, inputs, stages = prompts(batch), {}, [], stages_of(size)
    for _ in range(TOKENS):
        inputs.append([data])
        for stage in stages:
            for layer in stage:
                data = layer(data, cache)
            inputs[-1].append(data)
    return inputs


class Pipeline:
    def __init__(self, inner, asynchronous, pairs=(None, None)):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.first, self.last = self.rank == 0, self.rank == self.size - 1
        self.inner, self.asynchronous = inner, asynchronous
        self.from_group, self.to_group = pairs
        self.stages = stages_of(self.size)
        self.sent = self.received = 0  # tags
        self.seen = []

    def send(self, token, results):
        """Works that send the results of the micro-batches. The last stage keeps the last token."""
        works = []
        if results is None or (self.last and token == TOKENS - 1):
            return works
        for result in results:
            send = dist.isend if self.asynchronous else dist.send
            works.append(send(result, (self.rank + 1) % self.size, group=self.to_group, tag=self.sent))
            self.sent += 1
        return works if self.asynchronous else []

    def receive(self, token, inputs):
        """Works that receive into the inputs of the micro-batches. Stage 0 has the prompts."""
        works = []
        if inputs is None or (self.first and token == 0):
            return works
        for data in inputs:
            receive = dist.irecv if self.asynchronous else dist.recv
            works.append(receive(data, (self.rank - 1) % self.size, group=self.from_group, tag=self.received))
            self.received += 1
        return works if self.asynchronous else []

    def exchange(self, sent_token, results, token, inputs):
        if self.first:
            works = self.receive(token, inputs)
            works = self.send(sent_token, results) + works
        else:
            works = self.send(sent_token, results)
            works += self.receive(token, inputs)
        for work in works:
            work.wait()

    def inputs(self, batches, token):
        """Buffers for the inputs of the micro-batches, or the prompts."""
        if not self.first:
            return [torch.zeros(BATCH, PROMPT if token == 0 else 1, HIDDEN, dtype=torch.float16) for _ in batches]
        return [prompts(batch) if token == 0 else torch.zeros(BATCH, 1, dtype=torch.int64) for batch in batches]

    def check(self, batches, token, inputs):
        for batch, data in zip(batches, inputs):
            wanted = alone(self.size, batch)[token][self.rank]
            if not torch.equal(data, wanted):
                raise AssertionError(f"stage {self.rank}, batch {batch}, token {token}: {data.flatten()[:4]}, not {wanted.flatten()[:4]}")
        self.seen += inputs

    def generate(self):
        sent_token, results = None, None
        for round_ in range(ROUNDS):
            caches = [[{} for _ in range(MICRO_BATCHES)] for _ in range(self.inner)]
            for token in range(TOKENS):
                for turn in range(self.inner):
                    first = (round_ * self.inner + turn) * MICRO_BATCHES
                    batches = range(first, first + MICRO_BATCHES)
                    inputs = self.inputs(batches, token)
                    self.exchange(sent_token, results, token, inputs)
                    self.check(batches, token, inputs)
                    for layer in self.stages[self.rank]:
                        inputs = [layer(data, cache) for data, cache in zip(inputs, caches[turn])]
                    sent_token, results = token, inputs
                    if self.last:
                        self.seen += results
        self.exchange(sent_token, results, None, None)
        dist.barrier()
        return self.seen


def initialize_distributed(address, port, size, rank):
    """The groups that this rank forms with its predecessor and with its successor. With two ranks they have the same members."""
    dist.init_process_group(BACKEND, init_method=f"tcp://{address}:{port}", world_size=size, rank=rank, timeout=timedelta(seconds=60))
    pairs = [dist.new_group([one, (one + 1) % size]) for one in range(size)]
    return pairs[rank - 1], pairs[rank]


def digest(tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode() + tensor.numpy().tobytes())
    return sha.hexdigest()[:16]


def main():
    if BACKEND == "muster":
        import muster_torch  # noqa: F401
    torch.set_num_threads(1)
    size = int(os.environ["WORLD_SIZE"])
    pairs = initialize_distributed(os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], size, int(os.environ["RANK"]))
    pipelines = {
        "blocking": lambda: Pipeline(size, False),
        "asynchronous": lambda: Pipeline(size, True),
        "more_iterations_than_stages": lambda: Pipeline(size + 1, True),
        "pair_groups": lambda: Pipeline(size, True, pairs),
        "blocking_pair_groups": lambda: Pipeline(size, False, pairs),
    }
    for case in sys.argv[1:]:
        ready = torch.ones(1)
        dist.all_reduce(ready)
        assert ready.item() == size
        print(f"{case}: {digest(pipelines[case]().generate())}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
