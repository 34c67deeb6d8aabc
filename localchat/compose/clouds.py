"""Builds clouds: a client of the one that is configured, and the simulated one that serves or is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localchat.errors import UsageError
from localchat.paths import Paths

if TYPE_CHECKING:
    from localchat.settings import CloudSettings, Settings
    from localchat.simulated_cloud import SimulatedCloudBackend
    from router.cloud.client.backend import CloudBackend
    from router.cloud.keys import FoundKey
    from router.cloud.target import Target
    from router.prices import Price
    from router.simcloud.server import SimulatedCloud


@dataclass(frozen=True, slots=True)
class CloudPlan:
    """What is simulated, and who writes the words: a model on this machine, or nobody (``scripted``)."""

    scripted: bool = False
    keys: tuple[str, ...] = ()
    per_minute: int | None = None
    gpu: str = "a100"
    policy: str = "vllm"
    model: str = "llama-3.1-8b"  # its window is larger than most local models'
    load_per_s: float = 0.0
    seed: int = 0
    fault: str = "none"


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

    def connect(url: str) -> CloudBackend:
        target = simulated_target(settings.cloud, url)
        return CloudBackend(target, lambda: FoundKey(None, "none is needed"))

    child = CloudChild(("--text-model", settings.model))
    return SimulatedCloudBackend(simulated_target(settings.cloud).model, child, connect)


def simulated_target(cloud: CloudSettings, url: str = "http://127.0.0.1/v1") -> Target:
    """Where the simulated cloud is once it has been started; all but its address is known before."""
    from router.cloud.target import Deadlines, make_target

    return make_target(
        "localchat",
        base_url=url,
        deadlines=Deadlines(cloud.connect_s, cloud.first_token_s, cloud.idle_s, cloud.total_s),
        temperature=cloud.temperature,
        price=_own_price(cloud) or _free(),
    )


def _free() -> Price:
    from router.prices import Price

    return Price(0.0, 0.0, 0.0, "it is simulated")


def build_simulated_cloud(settings: Settings, paths: Paths, plan: CloudPlan) -> SimulatedCloud:
    """A cloud of our own, which somebody has to serve. A model that writes for it begins to load now.

    Raises InvalidSimulation, and WeightsError when there is no such model.
    """
    from localchat.compose.engines import build_catalog, build_engine
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
            price=_own_price(cloud) or (_free() if cloud.preset == "localchat" else None),
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
