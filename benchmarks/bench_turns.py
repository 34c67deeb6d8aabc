"""Time to first token at turn 10 over turn 1 of one conversation, with equal user messages.

The cache of the conversation so far must carry over: each turn should compute only its own tokens.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.record import arguments, recording
from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from localchat.weights import Catalog
from router.request import ChatRequest, Delta, Finished, Message, Sampling

MESSAGE = "Tell me one more thing about the sea, in one or two sentences, please. Then stop."
TURNS = 10


async def conversation(path: str) -> tuple[list[float], list[int]]:
    """TTFT in seconds and computed prompt tokens, turn by turn; the model is loaded before."""
    model = EngineModel("default", LoadOptions(path))
    messages: list[Message] = []
    ttft: list[float] = []
    computed: list[int] = []
    try:
        async for _ in model.load():
            pass
        for _ in range(TURNS):
            messages.append(Message("user", MESSAGE))
            text = ""
            sampling = Sampling(temperature=0.2, seed=7, max_tokens=64)
            async for event in model.stream(ChatRequest(tuple(messages), sampling)):
                if isinstance(event, Delta):
                    text += event.text
                if isinstance(event, Finished):
                    ttft.append(event.timings.ttft_s)
                    computed.append(event.usage.prompt_tokens - event.usage.cached_tokens)
            messages.append(Message("assistant", text))
    finally:
        await model.close()
    return ttft, computed


def main() -> None:
    args = arguments(__doc__).parse_args()
    with TemporaryDirectory() as folder, recording("turns", args) as record:
        weights = Catalog(models=Path(folder), cache=Path(folder)).find("default")
        asyncio.run(conversation(str(weights.path)))
        runs = [asyncio.run(conversation(str(weights.path))) for _ in range(args.repeats)]
        record.row("turn 1", [ttft[0] for ttft, _ in runs], "s", note=f"{runs[0][1][0]} tokens computed")
        record.row(
            f"turn {TURNS}", [ttft[-1] for ttft, _ in runs], "s", note=f"{runs[0][1][-1]} tokens computed"
        )
        record.row(f"turn {TURNS} ÷ turn 1", [ttft[-1] / ttft[0] for ttft, _ in runs], "", "≤ 1.3")


if __name__ == "__main__":
    main()
