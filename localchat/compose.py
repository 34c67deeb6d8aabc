"""The only place where objects are built and joined.

Knows every part and no part's work. Heavy modules are imported where their
object is built.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import UsageError, WeightsError
from localchat.paths import Paths
from localchat.weights import Catalog

if TYPE_CHECKING:
    from localchat.engines.process import EngineModel
    from localchat.forecast import ModelForecaster, Speed
    from localchat.history import History
    from localchat.session import Session
    from localchat.settings import CloudSettings, Settings
    from localchat.simulated_cloud import SimulatedCloudBackend
    from router.backend import LocalModel
    from router.cloud.client.backend import CloudBackend
    from router.cloud.keys import FoundKey
    from router.cloud.target import Target
    from router.consent import Departure
    from router.prices import Price
    from router.request import ChatRequest
    from router.simcloud.server import SimulatedCloud


@dataclass(frozen=True, slots=True)
class CloudPlan:
    """What is simulated, and who writes the words: a model on this machine, or nobody (``scripted``)."""

    scripted: bool = False
    keys: tuple[str, ...] = ()
    per_minute: int | None = None
    gpu: str = "a100"
    policy: str = "vllm"
    model: str = "llama-3-8b"
    load_per_s: float = 0.0
    seed: int = 0
    fault: str = "none"


@dataclass(frozen=True, slots=True)
class Remote:
    """The cloud that may answer, as the surfaces speak of it."""

    name: str
    simulated: bool
    departure: Callable[[ChatRequest], Departure]
    spent_text: Callable[[], str] = lambda: ""


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
    cloud: Remote | None = None  # None: nothing can leave this machine

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


def build_cloud(settings: Settings, environ: Mapping[str, str] = os.environ) -> CloudBackend:
    """For a caller that wants to leave this machine; nothing here calls it unasked.

    Connects to nothing and reads no key before its first request. Raises UsageError where no
    cloud is configured, or one that cannot be used.
    """
    from router.cloud.client.backend import CloudBackend

    target = cloud_target(settings.cloud)
    if target is None:
        raise UsageError("No cloud is configured.", "Set preset, or base_url and model, in [cloud].")
    return CloudBackend(target, lambda: cloud_key(target, environ))


def build_simulated_backend(settings: Settings) -> SimulatedCloudBackend:
    """A client of a simulated cloud that is started with its first request; to be closed.

    The same model as here writes its words, from the same pages of memory: its file is mapped by both.
    """
    from localchat.simulated_cloud import CloudChild, SimulatedCloudBackend
    from router.cloud.client.backend import CloudBackend
    from router.cloud.keys import FoundKey
    from router.cloud.target import Deadlines, make_target, presets
    from router.prices import Price

    cloud = settings.cloud
    free = Price(0.0, 0.0, 0.0, "it is simulated here")

    def connect(url: str) -> CloudBackend:
        target = make_target(
            "localchat",
            base_url=url,
            deadlines=Deadlines(cloud.connect_s, cloud.first_token_s, cloud.idle_s, cloud.total_s),
            temperature=cloud.temperature,
            price=_own_price(cloud) or free,
        )
        return CloudBackend(target, lambda: FoundKey(None, "none is needed"))

    child = CloudChild(("--text-model", settings.model))
    return SimulatedCloudBackend(presets()["localchat"].model, child, connect)


def build_simulated_cloud(settings: Settings, paths: Paths, plan: CloudPlan) -> SimulatedCloud:
    """A cloud of our own, which somebody has to serve. A model that writes for it begins to load now.

    Raises InvalidSimulation, and WeightsError when there is no such model.
    """
    from localchat.engine_text import EngineText
    from router.simcloud.answering import SimulatedModel
    from router.simcloud.deployment import Deployment
    from router.simcloud.door import Door
    from router.simcloud.faults import FaultSwitch, parse_fault
    from router.simcloud.live import LiveServer
    from router.simcloud.server import SimulatedCloud
    from router.simcloud.text_source import ScriptedText, TextSource
    from router.simcloud.users import Users

    faults = FaultSwitch(parse_fault(plan.fault))
    deployment = Deployment(model=plan.model, gpu=plan.gpu, policy=plan.policy)
    server = LiveServer(deployment, Users(plan.load_per_s, plan.seed))
    source: TextSource = ScriptedText()
    if not plan.scripted:
        engine = build_engine(settings, paths, build_catalog(paths), settings.model)
        engine.start()
        source = EngineText(engine)
    return SimulatedCloud(SimulatedModel(server, source), Door(plan.keys, plan.per_minute), faults)


def cloud_target(cloud: CloudSettings) -> Target | None:
    """Which cloud the settings mean, None where they mean none. Raises UsageError."""
    from router.cloud.target import Deadlines, make_target
    from router.errors import CloudMisconfigured

    if not cloud.is_configured:
        return None
    try:
        return make_target(
            cloud.preset or "custom",
            base_url=cloud.base_url,
            model=cloud.model,
            key_variable=cloud.api_key_env,
            deadlines=Deadlines(cloud.connect_s, cloud.first_token_s, cloud.idle_s, cloud.total_s),
            temperature=cloud.temperature,
            price=_own_price(cloud),
        )
    except CloudMisconfigured as error:
        raise UsageError(error.message, error.next_step) from None


def cloud_key(target: Target, environ: Mapping[str, str] = os.environ) -> FoundKey:
    """Asks the keyring, which may ask the person. Raises CloudMisconfigured for what is no key."""
    from router.cloud.keys import find_key

    return find_key(target.address.place, target.key_variable, environ)


def _own_price(cloud: CloudSettings) -> Price | None:
    from router.prices import Price

    price, output, cached = cloud.input_usd_per_mtok, cloud.output_usd_per_mtok, cloud.cached_usd_per_mtok
    if price is None and output is None and cached is None:
        return None
    if price is None or output is None:
        raise UsageError(
            "Half of the cloud's price is set.", "Set input_usd_per_mtok and output_usd_per_mtok."
        )
    return Price(price, output, price if cached is None else cached, "the settings")


def _what_is_wrong(path: Path) -> str:
    from bandwidth_model.machine import available_bytes
    from localchat.weights import check_usable

    try:
        check_usable(path, available_bytes())
    except WeightsError as error:
        return str(error)
    return ""
