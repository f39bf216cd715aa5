"""Videos and results in an object store with S3's protocol: a server of moto on loopback, reached by s3fs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import s3fs
from moto.server import ThreadedMotoServer
from typer.testing import CliRunner

from framebind.__main__ import app
from framebind.video.workers.manifest import NAME
from support.tiny_models import chain
from support.video.clips import write_clip


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The file system of an empty bucket, whose server the environment names."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL_S3": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    system.mkdir("bucket")
    yield system
    server.stop()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_from_a_bucket_to_a_bucket_and_again(store: Any, tmp_path: Path) -> None:
    (model := tmp_path / "colours.tflite").write_bytes(chain("SOFTMAX", shape=(1, 1, 1, 3)))
    for number in range(2):
        store.put_file(str(write_clip(tmp_path / f"{number}.mp4", frames=3 + number)), f"bucket/in/{number}.mp4")

    def process(*more: str) -> str:
        return CliRunner().invoke(
            app, ["process", "s3://bucket/in", "--output", "s3://bucket/out", "--task", "classify",
                  "--model", str(model), "--save", "jsonl", "--backend", "gl", *more]
        ).output  # fmt: skip

    assert "2 videos, 7 frames" in process()
    assert {Path(name).name for name in store.find("bucket/out")} == {"0.jsonl", "1.jsonl", NAME}
    rows = [json.loads(line) for line in store.cat_file("bucket/out/1.jsonl").splitlines()]
    assert {(row["source"], row["frame"]) for row in rows} == {("s3://bucket/in/1.mp4", n) for n in range(4)}
    assert "0 videos" in process("--resume")
    store.put_file(str(tmp_path / "0.mp4"), "bucket/in/1.mp4")  # another content: its ETag changes
    assert "1 video, 3 frames" in process("--resume")
    assert "--overwrite replaces it" in " ".join(process().split())
