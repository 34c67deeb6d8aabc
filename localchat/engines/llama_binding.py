"""The C API of llama.cpp as llama-cpp-python declares it.

``import llama_cpp`` runs the package's own high-level API first: 100 ms and
20 MB that nothing here uses. So the package is entered by its low-level module
alone; a later plain ``import llama_cpp`` in the same process would find this
bare package, which is why only the worker process does it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any


def load_binding() -> Any:
    """The module ``llama_cpp.llama_cpp``.

    Raises ImportError naming the next step when it is not installed or its
    library does not load.
    """
    if "llama_cpp" not in sys.modules:
        spec = importlib.util.find_spec("llama_cpp")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("llama-cpp-python is not installed. Run `make setup`, or pip install it.")
        package = types.ModuleType("llama_cpp")
        package.__path__ = list(spec.submodule_search_locations)
        package.__spec__ = spec
        # llguidance asks the package for what its low-level module defines.
        package.__dict__["__getattr__"] = lambda name: getattr(sys.modules["llama_cpp.llama_cpp"], name)
        sys.modules["llama_cpp"] = package
    try:
        return importlib.import_module("llama_cpp.llama_cpp")
    except (OSError, RuntimeError) as error:
        raise ImportError(
            f"llama.cpp's library does not load: {error}. Reinstall llama-cpp-python."
        ) from error
