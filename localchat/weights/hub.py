"""The Hugging Face hub as an address: which file, which server, with whose token, and what it answers.

Owns names, URLs, the token and the meaning of status codes. Writes no files.

Headers: https://huggingface.co/docs/huggingface_hub/package_reference/file_download (get_hf_file_metadata)
Variables: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx

from localchat.errors import UsageError, WeightsError
from localchat.weights.patience import PassingFault, retry_after_s

ENDPOINT = "https://huggingface.co"
SPEC_FORM = "hf:OWNER/REPO/FILE.gguf[@REVISION]"
MAX_REDIRECTS = 5

_TRUE = {"1", "on", "yes", "true"}  # as huggingface_hub reads its variables
_REPO_PART = re.compile(r"[A-Za-z0-9][\w.-]{0,95}", re.ASCII)  # 96: the hub's limit on a repo name
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubFile:
    repo: str
    path: str
    revision: str = "main"

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        return f"hf:{self.repo}/{self.path}@{self.revision}"


@dataclass(frozen=True, slots=True)
class Remote:
    """A file as the hub describes it. ``sha256`` is None where the hub does not say it."""

    url: str
    etag: str | None
    sha256: str | None
    bytes: int
    commit: str | None


def parse_spec(spec: str) -> HubFile:
    """Read ``hf:owner/repo/file.gguf[@revision]``, refusing names that lead out of their place."""
    rest = spec.removeprefix("hf:")
    at = rest.lower().rfind(".gguf@")
    rest, revision = (rest[: at + 5], rest[at + 6 :]) if at >= 0 else (rest, "main")
    owner, _, rest = rest.partition("/")
    repo, _, path = rest.partition("/")
    sane = (
        all(_REPO_PART.fullmatch(part) and ".." not in part for part in (owner, repo))
        and _REVISION.fullmatch(revision)
        and ".." not in revision
        and all(_is_sane_segment(segment) for segment in path.split("/"))
    )
    if not sane or not path.lower().endswith(".gguf"):
        raise UsageError(f"{spec!r} does not name a GGUF file on the hub.", f"The form is {SPEC_FORM}")
    return HubFile(f"{owner}/{repo}", path, revision)


def _is_sane_segment(segment: str) -> bool:
    return segment.isprintable() and not segment.startswith(".") and "\\" not in segment and segment != ""


@dataclass(frozen=True, slots=True)
class Hub:
    endpoint: str = ENDPOINT
    token: str | None = field(default=None, repr=False)
    offline: bool = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], home: Path) -> Hub:
        endpoint = (environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).hostname:
            raise UsageError(f"HF_ENDPOINT={endpoint!r} is not a web address.", "It begins with https://")
        offline = environ.get("HF_HUB_OFFLINE", "").lower() in _TRUE
        return cls(endpoint, _token(environ, home), offline)

    def headers(self) -> dict[str, str]:
        """For requests to the endpoint; httpx drops the token when redirected to another host."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "localchat"}
        if self.token and self._is_private():
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def look_up(self, client: httpx.Client, file: HubFile) -> Remote:
        """Ask for the file's size, digest and commit. Its content may be on another host."""
        url = self._url(file, file.revision)
        response = client.head(url)
        for _ in range(MAX_REDIRECTS):  # a renamed repository redirects within the hub
            onward = response.next_request
            if onward is None or "x-linked-etag" in response.headers or not _same_host(onward.url, url):
                break
            response = client.send(onward)
        if response.status_code >= 400:
            self.refuse(response, file)
        return self._described(response, file)

    def _described(self, response: httpx.Response, file: HubFile) -> Remote:
        headers = response.headers
        size = headers.get("x-linked-size") or (
            "" if response.is_redirect else headers.get("content-length", "")
        )
        if not size.isdecimal():
            raise WeightsError(
                f"{self.endpoint} does not say how large {file.name} is.", "Check HF_ENDPOINT."
            )
        etag = (headers.get("x-linked-etag") or headers.get("etag") or "").removeprefix("W/").strip('"')
        commit = headers.get("x-repo-commit")
        return Remote(
            url=self._url(file, commit or file.revision),  # a commit cannot change under a download
            etag=etag or None,
            sha256=etag if _SHA256.fullmatch(etag) else None,
            bytes=int(size),
            commit=commit,
        )

    def refuse(self, response: httpx.Response, file: HubFile) -> None:
        """Raise what an error status means: a PassingFault, or a WeightsError with the next step."""
        status = response.status_code
        if status in (408, 429) or status >= 500:
            raise PassingFault(f"{response.url.host} answers {status}", retry_after_s(response.headers))
        page = f"{self.endpoint}/{file.repo}"
        match status, response.headers.get("x-error-code"):
            case 401, _:
                what = f"{file.repo} is private, gated or misspelt (401)."
                step = "Set HF_TOKEN to a token that may read it, or check the name"
                step = "HF_TOKEN was not accepted: check it, and the name" if self.token else step
            case 403, _:
                what, step = f"{file.repo} may not be read with this account (403).", "Accept its terms"
            case 404, "RepoNotFound":
                what, step = f"There is no repository {file.repo} (404).", "Check the name"
            case 404, "RevisionNotFound":
                what, step = f"{file.repo} has no revision {file.revision!r} (404).", "Check the name"
            case 404, _:
                what = f"{file.repo} has no file {file.path} at {file.revision} (404)."
                step, page = "Check the name", f"{page}/tree/{file.revision}"
            case _:
                what, step = f"{response.url.host} answers {status}.", "See"
        raise WeightsError(what, f"{step}: {page}")

    def _url(self, file: HubFile, revision: str) -> str:
        return f"{self.endpoint}/{file.repo}/resolve/{quote(revision, safe='')}/{quote(file.path)}"

    def _is_private(self) -> bool:
        """Whether the way to the endpoint keeps a token secret."""
        address = urlsplit(self.endpoint)
        return address.scheme == "https" or address.hostname in ("localhost", "127.0.0.1", "::1")


def _same_host(url: httpx.URL, other: str) -> bool:
    there = httpx.URL(other)
    return (url.scheme, url.host, url.port) == (there.scheme, there.host, there.port)


def _token(environ: Mapping[str, str], home: Path) -> str | None:
    if token := environ.get("HF_TOKEN", "").strip():
        return token
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    hf_home = Path(environ.get("HF_HOME") or cache / "huggingface").expanduser()
    try:
        text = Path(environ.get("HF_TOKEN_PATH") or hf_home / "token").expanduser().read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return text.strip() or None
