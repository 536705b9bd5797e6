"""A set's files and their digests: what is missing, changed or extra is named, and a damaged manifest refused."""

import hashlib
import json

import pytest

from attn_faithful._checks import InputError
from attn_faithful._digests import DigestFault, check_digests, digest_of_file
from attn_faithful.bench_files import check_set, read_manifest
from attn_faithful.records.bench import BenchManifest, BenchModel
from attn_faithful.store import strict, weights


def write_set(folder, models=("a", "b")):
    """A set of made-up files; its manifest."""
    written = {"texts/single.jsonl": b'{"example": "1"}\n'}
    for name in models:
        written[f"models/{name}/config.json"] = b"{}"
        written[f"models/{name}/model.safetensors"] = name.encode() * 3000
    for file, content in written.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    records = []
    for name in models:
        digests = {file.name: sha256(file) for file in (folder / "models" / name).iterdir()}
        records.append(BenchModel(name, "free", False, "bilstm", "single", 0, "It has a twin.", {}, [], digests))
    texts = {"single.jsonl": sha256(folder / "texts" / "single.jsonl")}
    manifest = BenchManifest(records, texts, 1, {"torch": "2"})
    (folder / "manifest.json").write_text(json.dumps(strict(manifest.as_json())), encoding="utf-8")
    return manifest


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_digest_of_a_file_in_several_chunks(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(range(256)) * 2**13)  # 2 MiB
    assert digest_of_file(path) == sha256(path)
    assert weights(tmp_path) == {"model.safetensors": sha256(path)}


def test_faults_are_named(tmp_path):
    manifest = write_set(tmp_path)
    digests = manifest.files() | {"manifest.json": sha256(tmp_path / "manifest.json")}
    assert check_digests(tmp_path, digests) == []
    (tmp_path / "models" / "a" / "config.json").write_bytes(b"{} ")
    (tmp_path / "models" / "b" / "model.safetensors").unlink()
    (tmp_path / "models" / "b" / "model.bin").write_bytes(b"")
    (tmp_path / "models" / ".DS_Store").write_bytes(b"")
    assert check_digests(tmp_path, digests) == [
        DigestFault("models/a/config.json", "changed"),
        DigestFault("models/b/model.bin", "extra"),
        DigestFault("models/b/model.safetensors", "missing"),
    ]


def test_a_path_out_of_the_folder_is_missing(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "secret").write_bytes(b"s")
    digests = {"../secret": sha256(tmp_path / "secret")}
    assert [str(fault) for fault in check_digests(inner, digests)] == ["../secret is missing"]


def test_a_set_that_is_as_it_was(tmp_path):
    manifest = write_set(tmp_path)
    (tmp_path / "README.md").write_text("beside the set")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "ours.json").write_text("{}")
    assert read_manifest(tmp_path) == manifest
    check_set(tmp_path, manifest)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("models/a/model.safetensors", b"other", r"models/a/model\.safetensors is changed\)"),
        ("models/a/code.py", b"", r"models/a/code\.py is extra\)"),
        ("texts/single.jsonl", None, r"texts/single\.jsonl is missing\)"),
    ],
)
def test_a_changed_set_is_refused(tmp_path, file, content, said):
    manifest = write_set(tmp_path)
    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=said):
        check_set(tmp_path, manifest)


def test_of_many_faults_the_first_is_named_and_the_rest_counted(tmp_path):
    manifest = write_set(tmp_path)
    for path in (tmp_path / "models").glob("*/*"):
        path.write_bytes(b"other")
    with pytest.raises(InputError, match=r"models/a/config\.json is changed, and 3 more\)"):
        check_set(tmp_path, manifest)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "list"),
        ("{}", "models"),
        ('{"models": [{}], "texts": {}, "version": 1}', "name"),
        (b"\xff", "UnicodeDecodeError"),
        ('{"models": [], "texts": [], "version": 1}', "items"),
    ],
)
def test_a_damaged_manifest_is_refused(tmp_path, content, said):
    path = tmp_path / "manifest.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=f"manifest.json cannot be read.*{said}"):
        read_manifest(tmp_path)


def test_a_folder_without_a_manifest_is_no_set(tmp_path):
    with pytest.raises(InputError, match=r"holds no manifest\.json, so it is no set"):
        read_manifest(tmp_path)
