"""Constrained output: how many of 200 answers follow their JSON schema, with and without the constraint.

20 schemas (objects, nested objects, enumerations, arrays, numbers with bounds, patterns) times 10 subjects,
the default model, temperature 0.2, at most 400 tokens. Unconstrained answers are given every chance: the
schema is in the prompt, and a fenced block counts. Validity is judged by the jsonschema package.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema

from benchmarks.record import arguments, recording
from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from localchat.weights import Catalog
from router.request import ChatRequest, Delta, Message, ResponseFormat, Sampling

SUBJECTS = (
    "a lighthouse",
    "the city of Paris",
    "a recipe for bread",
    "a red bicycle",
    "the planet Mars",
    "a jazz concert",
    "a library book",
    "an oak tree",
    "a weather report",
    "a football match",
)
TEXT: dict[str, Any] = {"type": "string", "maxLength": 60}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], least: int, most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _choice(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


WHOLE = {"type": "integer", "minimum": 0, "maximum": 1000}
NUMBER = {"type": "number", "minimum": 0, "maximum": 100}
FLAG = {"type": "boolean"}
DATE = {"type": "string", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
CODE = {"type": "string", "pattern": r"^[A-Z]{3}-[0-9]{4}$"}

SCHEMAS: tuple[dict[str, Any], ...] = (
    _object(name=TEXT, year=WHOLE),
    _object(name=TEXT, kind=_choice("place", "thing", "event")),
    _object(title=TEXT, tags=_list(TEXT, 1, 4)),
    _object(name=TEXT, old=FLAG, score=NUMBER),
    _object(label=TEXT, seen=DATE),
    _object(code=CODE, note=TEXT),
    _object(name=TEXT, size=_object(width=NUMBER, height=NUMBER)),
    _object(steps=_list(_object(text=TEXT, minutes=WHOLE), 1, 3)),
    _list(TEXT, 3, 3),
    _list(_object(word=TEXT, count=WHOLE), 1, 3),
    _choice("good", "bad", "neither"),
    _object(answer=_choice("yes", "no"), reason=TEXT),
    _object(name=TEXT, parts=_list(_object(name=TEXT, colour=_choice("red", "green", "blue")), 1, 3)),
    _object(value={"anyOf": [WHOLE, {"type": "null"}]}, unit=TEXT),
    _object(matrix=_list(_list(WHOLE, 2, 2), 2, 2)),
    _object(summary={"type": "string", "minLength": 5, "maxLength": 80}),
    _object(rating={"type": "integer", "minimum": 1, "maximum": 5}, comment=TEXT),
    _object(id=CODE, when=DATE, done=FLAG),
    _object(first=TEXT, second=_object(third=_object(fourth=WHOLE))),
    _object(kind={"const": "thing"}, names=_list(TEXT, 2, 2), odd=FLAG),
)


@dataclass(frozen=True, slots=True)
class Task:
    subject: str
    schema: dict[str, Any]

    @property
    def request(self) -> ChatRequest:
        schema = json.dumps(self.schema)
        text = f"Describe {self.subject} as JSON for this schema: {schema}\nAnswer with JSON only."
        return ChatRequest((Message("user", text),), Sampling(temperature=0.2, seed=1, max_tokens=400))

    def valid(self, answer: str) -> bool:
        fenced = re.search(r"```(?:json)?\s*(.*?)```", answer, re.DOTALL)
        try:
            jsonschema.validate(json.loads(fenced[1] if fenced else answer), self.schema)
        except (ValueError, jsonschema.ValidationError):
            return False
        return True


def tasks(count: int) -> Iterator[Task]:
    pairs = [Task(subject, schema) for subject in SUBJECTS for schema in SCHEMAS]
    yield from pairs[:count]


async def answer(model: EngineModel, request: ChatRequest) -> str:
    return "".join([event.text async for event in model.stream(request) if isinstance(event, Delta)])


async def shares(path: str, count: int) -> tuple[float, float]:
    """Per cent valid, constrained and unconstrained."""
    model = EngineModel("default", LoadOptions(path))
    valid = {True: 0, False: 0}
    try:
        for number, task in enumerate(tasks(count), 1):
            wanted = ResponseFormat("json_schema", json.dumps(task.schema))
            constrained = ChatRequest(task.request.messages, task.request.sampling, wanted)
            text = await answer(model, constrained)
            valid[True] += task.valid(text)
            if not task.valid(text):
                print(f"\nconstrained but invalid: {task.schema}\n  {text!r}")
            valid[False] += task.valid(await answer(model, task.request))
            print(f"\r{number}/{count}", end="", flush=True)
    finally:
        await model.close()
        print()
    return 100 * valid[True] / count, 100 * valid[False] / count


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--prompts", type=int, default=200, metavar="N")
    args = parser.parse_args()
    with TemporaryDirectory() as folder, recording("constrained", args) as record:
        weights = Catalog(models=Path(folder), cache=Path(folder)).find("default")
        constrained, free = asyncio.run(shares(str(weights.path), args.prompts))
        record.row("valid, constrained", constrained, "%", "= 100", f"{args.prompts} prompts")
        record.row("valid, the same prompts unconstrained", free, "%")


if __name__ == "__main__":
    main()
