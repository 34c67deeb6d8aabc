"""A model on this machine as a cloud's author: every token once, and of what is too long for it a part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localchat.engine_text import EngineText
from router.request import ChatRequest, Delta, Message, Sampling, TokenScore
from router.scripted import ScriptedBackend
from router.simcloud.text_source import TextEnd, TextToken

SCORE = TokenScore(-0.1, 1.0, 0.5)


async def written(model: ScriptedBackend, request: ChatRequest) -> tuple[str, int, TextEnd]:
    pieces = [piece async for piece in EngineText(model).stream(request)]
    *tokens, end = pieces
    assert isinstance(end, TextEnd)
    texts = [token.text for token in tokens if isinstance(token, TextToken)]
    return "".join(texts), len(texts), end


async def test_a_delta_of_several_tokens_is_shared_out_among_them() -> None:
    model = ScriptedBackend([Delta("Hello", scores=(SCORE, SCORE)), Delta("!", scores=(SCORE,))], loaded=True)
    request = ChatRequest((Message("user", "Hi"),))
    assert await written(model, request) == ("Hello!", 3, TextEnd("stop"))
    assert model.requests[0].messages == request.messages


@given(st.integers(1, 3_000), st.integers(1, 400), st.none() | st.integers(1, 500))
async def test_a_prompt_of_any_length_fits_and_leaves_room_for_an_answer(
    words: int, system: int, most: int | None
) -> None:
    model = ScriptedBackend(["Yes."], loaded=True, window_tokens=1_000)
    text = " ".join(str(n) for n in range(words))
    messages = (Message("system", "be " * system), Message("user", text))
    _, _, end = await written(model, ChatRequest(messages, Sampling(max_tokens=most)))
    (asked,) = model.requests
    read = await model.count_tokens(asked.messages)
    assert asked.sampling.max_tokens is not None
    assert read + asked.sampling.max_tokens <= 1_000
    assert asked.sampling.max_tokens >= min(most or 250, 250)
    assert end.partial == (asked.messages != messages)
    if end.partial and words > system:
        assert asked.messages[1].content.startswith("0")
        assert asked.messages[1].content.endswith(text[-1])
