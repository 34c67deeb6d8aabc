"""The only place where objects are built and joined.

Knows every part and no part's work. Heavy modules are imported where their
object is built.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import WeightsError
from localchat.paths import Paths
from localchat.weights import Catalog

if TYPE_CHECKING:
    from localchat.engines.process import EngineModel
    from localchat.forecast import ModelForecaster, Speed
    from localchat.history import History
    from localchat.session import Session
    from localchat.settings import Settings
    from router.backend import LocalModel


@dataclass(slots=True)
class Program:
    """A running localchat: what the surfaces (tui, cli) work with."""

    settings: Settings
    paths: Paths
    catalog: Catalog
    history: History
    model: LocalModel
    session: Session
    open_model: Callable[[str], LocalModel]
    forecaster: ModelForecaster | None = None  # of the present model
    forecaster_for: Callable[[LocalModel], ModelForecaster | None] = lambda model: None

    async def use_model(self, name: str) -> None:
        """Answer with another model from the next turn on; the conversation goes on.

        ``name`` is a name in the catalog or a path. Raises WeightsError when
        there is no such model; then the present one stays. Loads nothing yet.
        """
        from router.dispatch import Dispatch

        model = self.open_model(name)
        await self.model.close()
        self.model = model
        self.forecaster = self.forecaster_for(model)
        self.session.dispatch = Dispatch(model, self.forecaster)

    async def close(self) -> None:
        await self.model.close()
        self.history.close()


def build(settings: Settings, paths: Paths, *, incognito: bool = False, start: bool = False) -> Program:
    """Join the parts; ``incognito`` keeps the history in memory.

    ``start`` starts the engine's process at once, so that it loads while the rest
    of this program is still being imported; otherwise nothing is loaded yet.
    """
    catalog = build_catalog(paths)

    def open_model(name: str) -> LocalModel:
        return build_engine(settings, paths, catalog, name)

    model = build_engine(settings, paths, catalog, settings.model)
    if start:
        model.start()
    from localchat.history import History
    from localchat.session import Session
    from router.dispatch import Dispatch

    history = History(None if incognito else paths.history)

    def forecaster_for(model: LocalModel) -> ModelForecaster | None:
        return build_forecaster(paths, model)

    forecaster = forecaster_for(model)
    session = Session(history, Dispatch(model, forecaster), settings.sampling, settings.system)
    return Program(settings, paths, catalog, history, model, session, open_model, forecaster, forecaster_for)


def build_catalog(paths: Paths) -> Catalog:
    return Catalog(models=paths.models, cache=paths.cache)


def build_engine(settings: Settings, paths: Paths, catalog: Catalog, name: str) -> EngineModel:
    """Raises WeightsError when there is no such model."""
    from localchat.engines.process import EngineModel
    from localchat.engines.protocol import LoadOptions

    weights = catalog.find(name)
    catalog.verify(weights)
    engine = settings.engine
    options = LoadOptions(
        path=str(weights.path),
        ctx=engine.ctx,
        threads=engine.threads,
        prefill_threads=engine.prefill_threads,
        kv_type=engine.kv_type,
        gpu_layers=engine.gpu_layers,
        lora=os.path.expanduser(engine.lora),
        lora_scale=engine.lora_scale,
        cache_folder=str(paths.cache),
    )
    return EngineModel(weights.name, options, lambda: _what_is_wrong(weights.path))


def build_forecaster(paths: Paths, model: LocalModel) -> ModelForecaster | None:
    """For an engine on this machine; None where a model's file is not known."""
    from localchat.engines.process import EngineModel
    from localchat.forecast import ModelForecaster

    if not isinstance(model, EngineModel):
        return None

    def open_speed() -> Speed:
        from localchat.speed import MachineSpeed

        return MachineSpeed(paths)

    return ModelForecaster(
        model.model,
        Path(model.options.path),
        model.options.kv_type,
        open_speed,
        lambda: model.info,
        lambda: model.pid,
        gpu_layers=model.options.gpu_layers,
    )


def _what_is_wrong(path: Path) -> str:
    from bandwidth_model.machine import available_bytes
    from localchat.weights import check_usable

    try:
        check_usable(path, available_bytes())
    except WeightsError as error:
        return str(error)
    return ""
