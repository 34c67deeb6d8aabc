"""Models that a server offers, in versions, each with its rules and instances.

Owns which versions are served and which one a call means. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from router.errors import InvalidSimulation
from router.simcloud.dynamic.batch_cost import BatchCost
from router.simcloud.dynamic.queue import QueueRule
from router.simcloud.dynamic.rule import BatchRule
from router.simcloud.request import Job

USUAL_RULE = BatchRule()
USUAL_QUEUE = QueueRule()


@dataclass(frozen=True, slots=True)
class ServedModel:
    """``instances`` share the queue, each on a GPU of its own: two on one are not twice as fast."""

    name: str
    cost: BatchCost
    rule: BatchRule = USUAL_RULE
    version: int = 1
    instances: int = 1
    queue: QueueRule = USUAL_QUEUE
    levels: Mapping[int, QueueRule] = field(default_factory=dict)  # by priority, where not as ``queue``

    def __post_init__(self) -> None:
        if self.instances < 1:
            raise InvalidSimulation(f"{self.name} has no instance.", "Give at least 1.")


@dataclass(frozen=True, slots=True)
class Call:
    """``version`` None: the highest that is served."""

    job: Job
    model: str = ""
    version: int | None = None


class Repository:
    """``latest`` versions of each model are served (1, as is usual; None all), or those in ``specific``."""

    def __init__(
        self,
        models: Iterable[ServedModel],
        *,
        latest: int | None = 1,
        specific: Mapping[str, Iterable[int]] | None = None,
    ) -> None:
        held: dict[str, dict[int, ServedModel]] = {}
        for model in models:
            versions = held.setdefault(model.name, {})
            if model.version in versions:
                raise InvalidSimulation(f"{model.name} has version {model.version} twice.")
            versions[model.version] = model
        self._served: dict[str, dict[int, ServedModel]] = {}
        for name, versions in held.items():
            newest_first = sorted(versions, reverse=True)
            chosen = (specific or {}).get(name, newest_first[:latest])
            missing = [version for version in chosen if version not in versions]
            if missing:
                raise InvalidSimulation(f"{name} has no version {missing[0]}.", f"There are: {newest_first}.")
            self._served[name] = {version: versions[version] for version in sorted(chosen, reverse=True)}
        if not any(self._served.values()):
            raise InvalidSimulation("The repository serves no model.")

    @property
    def served(self) -> list[ServedModel]:
        return [model for versions in self._served.values() for model in versions.values()]

    def find(self, name: str = "", version: int | None = None) -> ServedModel | None:
        """None if it is not served; without a name the first model."""
        versions = self._served.get(name) if name else next(iter(self._served.values()))
        if not versions:
            return None
        return next(iter(versions.values())) if version is None else versions.get(version)
