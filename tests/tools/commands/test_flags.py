"""Options of the delegate on command lines: the same in all commands, by framebind's names and by TFLite's."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

import framebind as fb
from framebind.__main__ import app
from framebind.tools.common.flags import TFLITE_NAMES, DelegateFlags, GpuFlags, canonical, with_flags
from support.command_line import commands_in
from support.tiny_models import CPU_ONLY, chain

TFLITE = (
    "--gpu_backend=cl --gpu_precision_loss_allowed=true --max_delegated_partitions=2 --first_delegate_node_index=1 "
    "--last_delegate_node_index=3 --gpu_experimental_enable_quant=false --gpu_wait_type=do_not_wait "
    "--gpu_inference_for_sustained_speed=true --delegate_serialize_dir=cache --delegate_serialize_token=mine"
)
OURS = (
    "--backend cl --precision f16 --max-partitions 2 --first-node 1 --last-node 3 --quantization false "
    "--wait-type do-not-wait --preference sustained-speed --serialization-dir cache --model-token mine"
)


def options_of(*words: str) -> fb.GpuDelegateOptions:
    """The delegate's options that a command makes of these words."""
    found: list[fb.GpuDelegateOptions] = []
    alone = typer.Typer(context_settings={"token_normalize_func": canonical})

    def command(flags: GpuFlags) -> None:
        found.append(flags.options(Path("model.tflite")))

    alone.command()(with_flags(command))
    done = CliRunner().invoke(alone, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return found[0]


@pytest.mark.parametrize("words", [TFLITE, OURS], ids=["TensorFlow Lite's", "ours"])
def test_options_become_the_delegate_s(words: str) -> None:
    assert options_of(*words.split()) == fb.GpuDelegateOptions(
        backend="opencl", is_precision_loss_allowed=True, max_delegated_partitions=2, first_delegate_node_index=1,
        last_delegate_node_index=3, enable_quantization=False, serialization_dir=Path("cache"), model_token="mine",
        inference_preference=fb.InferencePreference.SUSTAINED_SPEED,
    )  # fmt: skip


def test_without_options_they_are_the_defaults_on_opengl() -> None:
    assert options_of() == fb.GpuDelegateOptions(backend="opengl", is_precision_loss_allowed=False)
    assert options_of("--f16").storage == "f16"
    assert options_of("--max_delegated_partitions=0").max_delegated_partitions is None, "as in TensorFlow Lite"
    assert options_of("--backend", "auto", "--wait-type", "passive").wait_type is fb.WaitType.PASSIVE


def test_a_folder_without_a_token_takes_the_model_s_fingerprint(tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(chain("EXP"))
    options = GpuFlags(serialization_dir=tmp_path).options(model)
    assert options.model_token == fb.fingerprint(model)


def commands() -> dict[str, Any]:
    """Every command that runs a model, and every demo."""
    all_of_them = commands_in(typer.main.get_command(app))
    inner = {
        f"{name} {key}": found for name in ("demo", "evaluate") for key, found in commands_in(all_of_them[name]).items()
    }
    return {name: all_of_them[name] for name in ("benchmark", "culprit", "diff", "inspect")} | inner


@pytest.mark.parametrize("name", commands())
def test_every_command_takes_all_of_them(name: str) -> None:
    names = {parameter.name for parameter in commands()[name].params}
    assert {f.name for f in fields(DelegateFlags)} | {"backend", "precision"} <= names


@pytest.mark.parametrize(
    "words",
    [
        ("benchmark", "style_transfer"),
        ("culprit", "style_transfer"),
        ("diff", "style_transfer"),
        ("inspect", "style_transfer", "--backend", "gl"),
    ],
    ids=lambda words: words[0],
)
def test_a_device_is_not_ignored(words: tuple[str, ...]) -> None:
    with pytest.raises(fb.DeviceError, match="named by their EGL number, 0 for the first; 'nonsense' is none"):
        CliRunner().invoke(app, [*words, "--device", "nonsense"], catch_exceptions=False)


def test_the_names_of_tensorflow_lite_lead_to_options() -> None:
    known = {option for command in commands().values() for p in command.params for option in p.opts}
    assert {f"--{name}" for name in TFLITE_NAMES.values()} <= known


def test_a_wrong_backend_is_one_message() -> None:
    done = CliRunner().invoke(app, ["diff", "any", "--backend", "metal"])
    assert done.exit_code == 2
    assert "'metal' is none of gl, opengl, cl, opencl, cuda, auto" in " ".join(done.output.replace("│", "").split())


# Inputs of benchmark --------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(chain("EXP", CPU_ONLY, shape=(1, 4, 5, 3)))
    return path


def benchmark(*words: object) -> Result:
    return CliRunner().invoke(app, ["benchmark", *map(str, words)], catch_exceptions=False)


CPU = ("--backend", "cpu", "--warmup-runs", 0)


def test_inputs_take_shapes_and_files(model: Path, tmp_path: Path) -> None:
    values = tmp_path / "values.npy"
    np.save(values, np.ones((2, 4, 5, 3), np.float32))
    raw = tmp_path / "values.bin"
    np.ones((2, 4, 5, 3), np.float32).tofile(raw)
    for file in (values, raw):
        done = benchmark(model, *CPU, "--runs", 1, "--input-shape", "x:2,4,5,3", "--input-file", f"x:{file}")
        assert done.exit_code == 0, done.output
    tflite = ("--input_layer=x", "--input_layer_shape=2,4,5,3", f"--input_layer_value_files=x:{raw}")
    assert benchmark(model, *CPU, "--num_runs=1", *tflite).exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--input-shape", "y:1,2"), "the model has no input 'y'; its inputs: x"),
        (("--input-file", "x:gone.npy"), "the values of input 'x' cannot be read from 'gone.npy'"),
        (("--input-file", "x:{model}"), "input 'x' takes 60 of float32"),
        (("--signature", "serve"), "the model has no signature 'serve'; its signatures: none"),
    ],
    ids=["a name", "a file", "values", "a signature"],
)
def test_inputs_that_do_not_fit_are_named(model: Path, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(fb.ModelError, match=message):
        benchmark(model, *CPU, "--runs", 1, *(word.format(model=model) for word in words))


@pytest.mark.parametrize(
    "words",
    [("--input-shape", "1,2"), ("--input-shape", "x:1,a"), ("--input-layer", "x"), ("--input-file", "x")],
    ids=str,
)
def test_inputs_that_cannot_be_read_are_an_error_of_the_command_line(words: tuple[str, ...]) -> None:
    assert benchmark("style_transfer", *CPU, *words).exit_code == 2


def test_a_dry_run_runs_nothing(model: Path) -> None:
    done = benchmark(model, *CPU, "--dry_run")
    assert done.exit_code == 0 and "Nothing was run" in done.output and "Inference timings" not in done.output


def test_seconds_end_a_benchmark(model: Path) -> None:
    done = benchmark(model, *CPU, "--runs", 10**9, "--max_secs", 0.01, "--run-delay", 0.001)
    assert done.exit_code == 0, done.output
