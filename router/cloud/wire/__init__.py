"""OpenAI's chat completions as JSON, to and from the project's own types, without I/O.

The client writes requests and reads answers, a server reads requests and writes answers;
both use these functions, so that one cannot drift from the other. What is unknown is
skipped, what is wrong is named, and nothing that came from elsewhere is trusted: sizes are
bounded and server text is plain and short.

Format: https://platform.openai.com/docs/api-reference/chat
"""

from router.cloud.wire.answer import (
    Chunk,
    Reply,
    chunk_from_json,
    chunk_to_json,
    completion_from_json,
    completion_to_json,
    text_chunk_to_json,
    text_completion_to_json,
    usage_to_json,
)
from router.cloud.wire.call import Call, call_from_json, text_call_from_json
from router.cloud.wire.errors import ErrorAnswer, error_from_json, error_to_json, stream_status
from router.cloud.wire.fields import NotAsAgreed, loads, said
from router.cloud.wire.request import Dialect, request_to_json

__all__ = [
    "Call",
    "Chunk",
    "Dialect",
    "ErrorAnswer",
    "NotAsAgreed",
    "Reply",
    "call_from_json",
    "chunk_from_json",
    "chunk_to_json",
    "completion_from_json",
    "completion_to_json",
    "error_from_json",
    "error_to_json",
    "loads",
    "request_to_json",
    "said",
    "stream_status",
    "text_call_from_json",
    "text_chunk_to_json",
    "text_completion_to_json",
    "usage_to_json",
]
