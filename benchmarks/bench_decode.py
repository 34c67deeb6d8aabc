"""Decode speed through the chat path over a bare llama_decode + argmax loop.

Both use the same build, file, context and thread counts, 512 greedy tokens after
the same prompt, alternating in one run; the bare loop runs in a process of its
own, as the engine does. Prints the ratio chat/bare (goal: at least 0.98).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.record import arguments, recording
from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from localchat.weights import Catalog
from router.request import ChatRequest, Delta, Finished, Message, Sampling

PROMPT = (Message("user", "Tell me a long story about a lighthouse keeper and the sea."),)
TOKENS = 512


class Bare:
    """The bare loop in a child: one line in, one rate out."""

    def __init__(self, path: str, threads: int) -> None:
        command = [sys.executable, "-m", "benchmarks.bench_decode", "--bare", path, "--threads", str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self) -> float:
        assert self._process.stdin
        assert self._process.stdout
        print(TOKENS, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def bare_loop(path: str, threads: int) -> None:
    import time

    import numpy as np

    from localchat.engines.llama_cpp import LlamaRuntime
    from localchat.engines.template import ChatTemplate

    runtime = LlamaRuntime(LoadOptions(path, threads=threads, prefill_threads=threads), lambda _: True)
    c, context = runtime._c, runtime._context
    template = ChatTemplate(runtime.template(), runtime.special_text("bos"), runtime.special_text("eos"))
    prompt = runtime.tokenize(template.text(PROMPT), special=True, start=False)
    size, tokens = runtime.vocabulary_size, (c.llama_token * len(prompt))(*prompt)
    c.llama_set_abort_callback(context, c.ggml_abort_callback(), None)
    one = (c.llama_token * 1)()
    for line in sys.stdin:
        c.llama_memory_clear(c.llama_get_memory(context), False)
        c.llama_decode(context, c.llama_batch_get_one(tokens, len(prompt)))
        started = time.perf_counter()
        for _ in range(int(line) - 1):
            row = np.ctypeslib.as_array(c.llama_get_logits_ith(context, -1), shape=(size,))
            one[0] = int(row.argmax())
            c.llama_decode(context, c.llama_batch_get_one(one, 1))
        c.llama_get_logits_ith(context, -1)
        print((int(line) - 1) / (time.perf_counter() - started), flush=True)


async def chat_rate(model: EngineModel) -> float:
    """Of the engine's own timing; checked against the tokens that arrived."""
    arrived = 0
    async for event in model.stream(ChatRequest(PROMPT, Sampling(temperature=0.0, max_tokens=TOKENS))):
        if isinstance(event, Delta):
            arrived += len(event.scores)
        if isinstance(event, Finished):
            assert arrived == event.usage.completion_tokens == TOKENS, (arrived, event)
            return event.timings.decode_tokens_per_s
    raise AssertionError("no Finished event")


async def measure(path: str, threads: int, repeats: int) -> tuple[list[float], list[float]]:
    """Rates of both ways, in pairs whose order swaps."""
    model = EngineModel("chat", LoadOptions(path, ctx=2048, threads=threads, prefill_threads=threads))
    bare = Bare(path, threads)
    chat_rates: list[float] = []
    bare_rates: list[float] = []
    try:
        await chat_rate(model)
        bare.run()
        for number in range(repeats):
            if number % 2:
                chat_rates.append(await chat_rate(model))
            bare_rates.append(await asyncio.to_thread(bare.run))
            if not number % 2:
                chat_rates.append(await chat_rate(model))
    finally:
        bare.close()
        await model.close()
    return chat_rates, bare_rates


def main() -> None:
    parser = arguments(__doc__, repeats=8)
    parser.add_argument("--bare", metavar="FILE", help="be the bare loop (used by this script itself)")
    parser.add_argument("--threads", type=int, default=0, help="one thread count instead of 1 and 2")
    parser.add_argument("--model", default="default", metavar="NAME")
    args = parser.parse_args()
    if args.bare:
        bare_loop(args.bare, args.threads)
        return
    with TemporaryDirectory() as folder, recording("decode", args) as record:
        catalog = Catalog(models=Path(folder), cache=Path(folder))
        weights = catalog.find(args.model)
        for threads in [args.threads] if args.threads else [2, 1]:
            chat, bare = asyncio.run(measure(str(weights.path), threads, args.repeats))
            ratios = [a / b for a, b in zip(chat, bare, strict=True)]
            plural = "s" if threads > 1 else ""
            record.row(f"chat path, {threads} thread{plural}", chat, "tokens/s", note=weights.name)
            record.row(f"bare llama_decode loop, {threads} thread{plural}", bare, "tokens/s")
            record.row(f"chat ÷ bare, {threads} thread{plural}", ratios, "", "≥ 0.98")


if __name__ == "__main__":
    main()
