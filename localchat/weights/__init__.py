"""Model files: which exist, where they come from, fetching and verifying them.

Importing this imports no HTTP client; only Catalog.pull does.
"""

from localchat.weights.catalog import Catalog, WeightsInfo
from localchat.weights.default import DEFAULT
from localchat.weights.discovery import Stores, usual_stores
from localchat.weights.entry import Source, Weights
from localchat.weights.progress import Progress
from localchat.weights.usable import check_usable

__all__ = [
    "DEFAULT",
    "Catalog",
    "Progress",
    "Source",
    "Stores",
    "Weights",
    "WeightsInfo",
    "check_usable",
    "usual_stores",
]
