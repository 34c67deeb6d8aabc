"""The header of a remote model by HTTP range: few bytes, the same shape, and one line for each failure."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bandwidth_model import gguf
from bandwidth_model.gguf import FIRST_READ_BYTES
from bandwidth_model.reading import read_shape
from bandwidth_model.shape import ModelShape
from localchat.errors import LocalchatError, UsageError
from localchat.weights import remote
from localchat.weights.patience import Patience
from localchat.weights.remote import fetch_shape
from tests.localchat.hub_server import Fault, Hub, running_hub
from tests.localchat.small_models import part_name, small_gguf, split_gguf

SPEC = "hf:owner/repo/small.gguf"
LONG_WORDS = 300_000  # a header of some 5 MB: three requests


@pytest.fixture(scope="module")
def long_model() -> bytes:
    return small_gguf(LONG_WORDS)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with running_hub(Hub(files={"owner/repo/small.gguf": small_gguf()})) as hub:
        yield hub


@pytest.fixture
def fetch(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("HF_")]:
        monkeypatch.delenv(name)

    def fetch(spec: str = SPEC, **environ: str) -> ModelShape:
        variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), **environ}
        return fetch_shape(spec, variables, Patience(attempts=3, sleep=lambda _: None, then="run it again"))

    return fetch


def local(tmp_path: Path, content: bytes, name: str = "small.gguf") -> ModelShape:
    path = tmp_path / name
    path.write_bytes(content)
    return read_shape(path)


def sent(hub: Hub) -> int:
    """Bytes asked for by range, as far as there are so many."""
    ranges = [each["Range"].removeprefix("bytes=").split("-") for each in hub.asked("GET", "content")]
    return sum(int(last) + 1 - int(first) for first, last in ranges)


class TestFetching:
    def test_the_shape_is_that_of_the_file(self, hub: Hub, fetch, tmp_path: Path) -> None:
        assert fetch() == local(tmp_path, hub.files["owner/repo/small.gguf"])
        assert fetch(f"{SPEC}@main").context_length == 4096

    def test_a_long_header_takes_few_requests_and_nothing_twice(
        self, hub: Hub, fetch, tmp_path: Path, long_model: bytes
    ) -> None:
        hub.files["owner/repo/small.gguf"] = long_model + bytes(10 * FIRST_READ_BYTES)
        assert fetch() == local(tmp_path, long_model)
        assert len(hub.asked("GET", "content")) <= 3
        assert sent(hub) <= 4 * len(long_model)
        assert all("If-Range" in each for each in hub.asked("GET", "content")[1:])

    def test_all_parts_of_one_revision(self, hub: Hub, fetch, tmp_path: Path) -> None:
        parts = split_gguf(2)
        for number, part in enumerate(parts, 1):
            hub.files[f"owner/repo/q/{part_name('big', number, 2)}"] = part
            (tmp_path / part_name("big", number, 2)).write_bytes(part)
        found = fetch(f"hf:owner/repo/q/{part_name('big', 2, 2)}")
        assert found == read_shape(tmp_path / part_name("big", 1, 2))
        assert found.name == "big"
        paths = [path for place, method, path, _ in hub.requests if (place, method) == ("hub", "HEAD")]
        assert ["/resolve/main/" in path for path in paths] == [True, False]
        assert "/resolve/c0ffee/" in paths[1]

    def test_the_token_goes_to_the_hub_and_not_to_its_content_network(self, hub: Hub, fetch) -> None:
        fetch(HF_TOKEN="hf_secret")
        assert all(each["Authorization"] == "Bearer hf_secret" for each in hub.asked("HEAD", "hub"))
        assert ["Authorization" in each for each in hub.asked("GET", "content")] == [False]

    @pytest.mark.parametrize("redirects", [True, False])
    def test_a_server_that_ignores_ranges_is_read_no_further_than_needed(
        self, hub: Hub, fetch, tmp_path: Path, long_model: bytes, redirects: bool
    ) -> None:
        hub.honours_ranges, hub.redirects = False, redirects
        hub.files["owner/repo/small.gguf"] = long_model + bytes(30 * FIRST_READ_BYTES)
        assert fetch() == local(tmp_path, long_model)

    def test_a_lost_connection_goes_on_where_it_was(self, hub: Hub, fetch, long_model: bytes) -> None:
        hub.files["owner/repo/small.gguf"] = long_model
        hub.faults = [Fault(cut_after=1_000_000), Fault(status=503)]
        assert fetch().parameters > 0
        starts = [each["Range"].split("-")[0] for each in hub.asked("GET", "content")]
        assert starts[:3] == ["bytes=0", "bytes=1000000", "bytes=1000000"]

    def test_content_that_changes_meanwhile_begins_again(self, hub: Hub, fetch, long_model: bytes) -> None:
        hub.files["owner/repo/small.gguf"] = long_model
        hub.faults = [Fault(cut_after=1_000_000), Fault(status=416)]
        assert fetch().parameters > 0
        assert hub.asked("GET", "content")[2]["Range"].startswith("bytes=0-")

    def test_a_renamed_repository(self, hub: Hub, fetch) -> None:
        hub.files["owner/new/small.gguf"] = hub.files.pop("owner/repo/small.gguf")
        hub.renamed["owner/repo"] = "new"
        assert fetch().parameters > 0


class TestRefuses:
    @pytest.mark.parametrize(
        ("status", "code", "said"),
        [
            (401, None, "private, gated or misspelt (401). Set HF_TOKEN"),
            (403, None, "may not be read with this account (403)"),
            (404, "RepoNotFound", "There is no repository owner/repo (404)"),
            (404, "RevisionNotFound", "has no revision 'main' (404)"),
        ],
    )
    def test_what_the_hub_refuses(self, hub: Hub, fetch, status: int, code: str | None, said: str) -> None:
        hub.refused["owner/repo/small.gguf"] = (status, code)  # type: ignore[assignment]  # a code may be missing
        self.refused(fetch, SPEC, said)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"<!doctype html><p>no model", "not a GGUF file: it begins with b'<!do'. Choose another file."),
            (b"", "it ends at byte 0, within its header"),
            (small_gguf()[:300], "it ends at byte 300, within its header"),
            (small_gguf()[:-1], "it is cut short"),
            (split_gguf(3)[0], "it is one of 3 parts, and its name says otherwise"),
            (b"GGUF\x03\0\0\0" + b"\xff" * 64, "are claimed; at most"),
        ],
    )
    def test_what_is_no_model(self, hub: Hub, fetch, content: bytes, said: str) -> None:
        hub.files["owner/repo/small.gguf"] = content
        self.refused(fetch, SPEC, said)

    def test_a_missing_file_or_part(self, hub: Hub, fetch) -> None:
        self.refused(fetch, "hf:owner/repo/other.gguf", "has no file other.gguf at main (404)")
        hub.files[f"owner/repo/{part_name('big', 1, 2)}"] = split_gguf(2)[0]
        self.refused(fetch, f"hf:owner/repo/{part_name('big', 1, 2)}", "has no file big-00002-of-00002.gguf")

    def test_a_header_without_end_within_bounds(
        self, hub: Hub, fetch, monkeypatch: pytest.MonkeyPatch, long_model: bytes
    ) -> None:
        hub.files["owner/repo/small.gguf"] = long_model
        for module in (gguf, remote):
            monkeypatch.setattr(module, "MAX_HEADER_BYTES", 2**21 + 7)
        self.refused(fetch, SPEC, "claims to go on beyond 2,097,159 bytes")
        assert sent(hub) <= 2**21 + 7

    def test_while_offline(self, hub: Hub, fetch) -> None:
        with pytest.raises(LocalchatError, match=r"HF_HUB_OFFLINE is set\. Unset it"):
            fetch(HF_HUB_OFFLINE="1")
        assert hub.requests == []

    def test_where_nobody_answers(self, fetch) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with pytest.raises(LocalchatError) as caught:
            fetch(HF_ENDPOINT=f"http://127.0.0.1:{port}")
        assert str(caught.value).endswith("(3 attempts). Check the network or proxy, then run it again.")

    @pytest.mark.parametrize("spec", ["hf:", "hf:owner/repo", "hf:owner/repo/a.bin", "hf:../repo/a.gguf"])
    def test_what_names_no_file(self, fetch, spec: str) -> None:
        with pytest.raises(UsageError, match=r"The form is hf:OWNER/REPO/FILE\.gguf"):
            fetch(spec)

    def refused(self, fetch, spec: str, said: str) -> None:
        with pytest.raises(LocalchatError) as caught:
            fetch(spec)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
