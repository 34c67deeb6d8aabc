"""The only place where objects are built and joined.

Knows every part and no part's work. Heavy modules are imported where their object is
built; what leads off this machine is built in :mod:`localchat.compose.routing`, when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localchat.compose.engines import build_catalog, build_engine, build_forecaster
from localchat.compose.routing import Remote, Routing
from localchat.paths import Paths
from localchat.weights import Catalog

if TYPE_CHECKING:
    from localchat.forecast import ModelForecaster
    from localchat.history import History
    from localchat.session import Session
    from localchat.settings import Settings
    from router.backend import LocalModel
    from router.dispatch import Dispatch

__all__ = ["Program", "Remote", "Routing", "build", "build_catalog", "build_engine"]


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
    routing: Routing | None = None

    @property
    def cloud(self) -> Remote | None:
        """None: nothing can leave this machine."""
        return self.routing.remote if self.routing else None

    async def use_model(self, name: str) -> None:
        """Answer with another model from the next turn on; the conversation goes on.

        ``name`` is a name in the catalog or a path. Raises WeightsError when
        there is no such model; then the present one stays. Loads nothing yet.
        """
        model = self.open_model(name)
        await self.model.close()
        self.model = model
        self.forecaster = self.forecaster_for(model)
        self.session.dispatch = build_dispatch(model, self.forecaster, self.routing)

    async def close(self) -> None:
        await self.model.close()
        if self.routing:
            await self.routing.close()
        self.history.close()


def build(settings: Settings, paths: Paths, *, incognito: bool = False, start: bool = False) -> Program:
    """Join the parts; ``incognito`` keeps the history in memory, and no other record.

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

    history = History(None if incognito else paths.history)

    def forecaster_for(model: LocalModel) -> ModelForecaster | None:
        return build_forecaster(paths, model)

    forecaster, routing = forecaster_for(model), Routing(settings, paths, keeps=not incognito)
    dispatch = build_dispatch(model, forecaster, routing)
    session = Session(history, dispatch, settings.sampling, settings.system, routing.mode)
    return Program(
        settings, paths, catalog, history, model, session, open_model, forecaster, forecaster_for, routing
    )


def build_dispatch(
    model: LocalModel, forecaster: ModelForecaster | None, routing: Routing | None
) -> Dispatch:
    from router.dispatch import Dispatch

    if routing is None:
        return Dispatch(model, forecaster)
    elsewhere = None if routing.offline else lambda: routing.elsewhere(model, forecaster)
    return Dispatch(model, forecaster, elsewhere, routing.check, routing)
