"""What a person calls a model -> its shape: a name, a path, a folder of MLC, or a file on the hub.

Owns the order in which these are tried, and says in the words of this program what is
wrong with a header. Opens no model beyond its header.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from bandwidth_model.catalogue_shape import known_shape
from bandwidth_model.errors import BandwidthModelError
from bandwidth_model.gguf import TruncatedFile
from bandwidth_model.mlc import is_mlc_directory
from bandwidth_model.reading import read_shape
from bandwidth_model.shape import ModelShape
from localchat.errors import WeightsError
from localchat.weights.catalog import LIST_COMMAND, Catalog
from localchat.weights.usable import PULL_AGAIN


def find_shape(name: str, catalog: Catalog, environ: Mapping[str, str]) -> ModelShape:
    """The model that ``name`` means. Raises WeightsError where there is none, or its header is broken.

    A name that no file here answers to may be one of the catalogue of well-known
    models, with or without a quantisation: "qwen3-4b", "qwen3-4b:q8_0".
    """
    wanted = name.strip()
    if wanted.startswith("hf:"):
        from localchat.weights.remote import fetch_shape

        return _with_weights(fetch_shape(wanted, environ))
    path = os.path.expanduser(wanted)
    if is_mlc_directory(path) or ("/" in wanted and os.path.exists(path)):
        return shape_at(path)
    try:
        weights = catalog.find(wanted)
    except WeightsError:
        if known := known_shape(wanted):
            return known
        raise
    return replace(shape_at(weights.path), name=weights.name)


def shape_at(path: str | os.PathLike[str]) -> ModelShape:
    """The shape of the model at ``path``, or a WeightsError that says what is wrong there."""
    try:
        return _with_weights(read_shape(path))
    except TruncatedFile as error:
        raise WeightsError(str(error), PULL_AGAIN) from error
    except BandwidthModelError as error:
        choose = f"Choose a GGUF file or an MLC folder: {LIST_COMMAND}"
        raise WeightsError(f"{str(error).removesuffix('.')}.", choose) from error
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error


def _with_weights(shape: ModelShape) -> ModelShape:
    if shape.bytes_per_token <= 0:
        raise WeightsError(
            f"{shape.name} holds no weights that a token would read.", "Choose the model's own file."
        )
    return shape
