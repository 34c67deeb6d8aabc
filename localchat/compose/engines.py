"""Builds what runs a model on this machine, and what predicts its speed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import WeightsError
from localchat.paths import Paths
from localchat.weights import Catalog

if TYPE_CHECKING:
    from localchat.engines.process import EngineModel
    from localchat.forecast import ModelForecaster, Speed
    from localchat.settings import Settings
    from router.backend import LocalModel


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
