"""Finding models by name: in the package, in folders, and at addresses (a server of this machine stands for them)."""

from __future__ import annotations

import errno
import hashlib
import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import typer.testing

import framebind as fb
from framebind.__main__ import app
from framebind.video import models
from framebind.video.models import Known
from support.tiny_models import chain

MODEL = chain("EXP")
OTHER = chain("NEG")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which it is served; no model is anywhere else, and the cache is empty."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(models, "SHARED", tmp_path / "nothing")
    monkeypatch.delenv("FRAMEBIND_MODELS", raising=False)
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{httpd.server_address[1]}"
        httpd.shutdown()
        thread.join()


@pytest.fixture
def offer(served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Known]:
    """Adds a model to those that are known; ``content`` None: its address leads nowhere."""
    folder, address = served
    for name in list(models.MODELS):
        monkeypatch.delitem(models.MODELS, name)

    def add(name: str, content: bytes | None, sha256: str | None) -> Known:
        if content is not None:
            (folder / f"{name}.tflite").write_bytes(content)
        known = Known(sha256, f"{address}/{name}.tflite", "a model of the tests")
        monkeypatch.setitem(models.MODELS, name, known)
        return known

    return add


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_pinned_model_is_downloaded_and_checked(
    offer: Callable[..., Known], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer("good", MODEL, digest(MODEL))
    assert models.find_local("good") is None
    assert models.find_model("good").read_bytes() == MODEL
    assert models.cache_folder() in models.find_model("good").parents
    assert models.find_local("good") == models.find_model("good")
    assert [path.name for path in models.cache_folder().iterdir()] == ["good.tflite"], "nothing to record"
    for name, content in {"forged": MODEL, "gone": None}.items():
        known = offer(name, content, "0" * 64)
        with pytest.raises(fb.ModelError, match="set FRAMEBIND_MODELS to that folder") as caught:
            models.find_model(name)
        assert known.address in str(caught.value) and "0" * 64 in str(caught.value)
    monkeypatch.setenv("FRAMEBIND_MODELS", str(tmp_path))
    (tmp_path / "gone.tflite").write_bytes(b"mine")
    assert models.find_model("gone") == tmp_path / "gone.tflite"


def test_the_first_download_of_an_unpinned_model_is_trusted_and_no_other(
    served: tuple[Path, str], offer: Callable[..., Known]
) -> None:
    offer("free", MODEL, None)
    file = models.find_model("free")
    record = file.with_name("free.tflite.sha256")
    assert record.read_text() == f"{digest(MODEL)}  free.tflite\n", "as sha256sum -c takes it"
    assert record.stat().st_mode & 0o777 == 0o600
    (served[0] / "free.tflite").write_bytes(OTHER)
    assert models.find_model("free").read_bytes() == MODEL, "not fetched again"
    file.write_bytes(OTHER)
    assert models.find_local("free") is None
    with pytest.raises(fb.ModelError, match=rf"delete '{record}' if the model was changed on purpose"):
        models.find_model("free")
    record.unlink()
    assert models.find_model("free").read_bytes() == OTHER
    assert record.read_text().split()[0] == digest(OTHER)


def test_a_full_disk_leaves_no_half_of_a_record(offer: Callable[..., Known], monkeypatch: pytest.MonkeyPatch) -> None:
    offer("free", MODEL, None)

    def full(content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "record")

    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "sha256", full)
        with pytest.raises(fb.ModelError, match="No space left"):
            models.find_model("free")
    assert models.find_model("free").read_bytes() == MODEL
    assert len(list(models.cache_folder().iterdir())) == 2, "the model and its record"


def test_a_file_that_nothing_vouches_for_is_no_first_download(offer: Callable[..., Known]) -> None:
    offer("free", MODEL, None)
    models.cache_folder().mkdir(parents=True)
    (models.cache_folder() / "free.tflite").write_bytes(OTHER)
    assert models.find_local("free") is None
    assert models.find_model("free").read_bytes() == MODEL


@pytest.mark.usefixtures("served")
def test_where_the_network_does_not_lead_the_reason_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/free.tflite"  # nobody answers there once it is closed
    monkeypatch.setitem(models.MODELS, "free", Known(None, address, ""))
    with pytest.raises(fb.ModelError) as found:
        models.find_model("free")
    refused = f"[Errno {errno.ECONNREFUSED}] Connection refused"
    assert f"cannot be downloaded from {address}: {refused}. Get free.tflite elsewhere" in str(found.value)


def test_a_web_page_is_never_trusted(offer: Callable[..., Known]) -> None:
    offer("free", b"<html>please log in</html>", None)
    with pytest.raises(fb.ModelError, match="what came is no TensorFlow Lite model"):
        models.find_model("free")
    assert not list(models.cache_folder().iterdir())


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"nonsense free.tflite\n"], ids=["empty", "bytes", "no digest"])
def test_a_damaged_record_is_an_error(content: bytes, offer: Callable[..., Known]) -> None:
    offer("free", MODEL, None)
    models.find_model("free").with_name("free.tflite.sha256").write_bytes(content)
    with pytest.raises(fb.ModelError, match="Delete it to trust the next download"):
        models.find_model("free")


def test_what_is_known_is_pinned_or_from_the_guide() -> None:
    guide = "https://storage.googleapis.com/download.tensorflow.org/models/tflite/gpu/"
    for name, known in models.MODELS.items():
        assert known.address.startswith("https://")
        assert (known.sha256 is None and known.address == f"{guide}{name}.tflite") or len(str(known.sha256)) == 64


@pytest.mark.parametrize(
    "name", [name for name, known in models.MODELS.items() if known.sha256 and ".tflite" in known.address]
)
def test_pinned_digests_are_those_of_the_files_here(name: str, model_path: Callable[[str], Path]) -> None:
    assert digest(model_path(name).read_bytes()) == models.MODELS[name].sha256


def test_a_pinned_bundle_has_the_digest_of_the_file_here(model_path: Callable[[str], Path]) -> None:
    file = model_path("face_landmarker.task")
    assert digest(file.read_bytes()) == models.MODELS["face_landmarker"].sha256
    assert models.find_model("face_landmarker").name == file.name


# The command ----------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str, str]:
    done = typer.testing.CliRunner().invoke(app, ["models", *arguments])
    return done.exit_code, done.stdout, str(done.exception or done.stderr)


def test_the_command_lists_fetches_and_prints_paths(
    offer: Callable[..., Known], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = offer("free", MODEL, None)
    rows = {row["name"]: row for row in json.loads(run("list", "--json")[1])}
    free = {"name": "free", "what": "a model of the tests", "file": None, "address": known.address, "sha256": None}
    assert rows["free"] == free
    assert rows["style_transfer"]["file"] == str(models.BUNDLED["style_transfer"])
    code, _, error = run("path", "free")
    assert code == 1 and "python -m framebind models fetch free" in error
    file = str(models.cache_folder() / "free.tflite")
    assert run("fetch", "free")[:2] == (0, file + "\n")
    assert run("path", "free", "--json")[:2] == (0, json.dumps({"free": file}, indent=2) + "\n")
    monkeypatch.setenv("FRAMEBIND_MODELS", str(tmp_path))
    (tmp_path / "mine.tflite").write_bytes(MODEL)
    assert run("path", "mine")[:2] == (0, str(tmp_path / "mine.tflite") + "\n")
    listed = run()[1]
    assert all(name in listed for name in ("style_transfer", "free", "mine"))


@pytest.mark.parametrize("arguments", [["fetch"], ["path"], ["list", "free"], ["nonsense"]], ids=str)
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    assert run(*arguments)[0] == 2


@pytest.mark.usefixtures("served")
def test_unknown_names_are_errors() -> None:
    for action in ("fetch", "path"):
        code, _, error = run(action, "nonsense")
        assert code == 1 and "nonsense" in error
