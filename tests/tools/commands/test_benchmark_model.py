"""Command lines of LiteRT's benchmark_model, as its README prints them, run by ``benchmark``."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

import framebind as fb
from framebind.__main__ import app
from framebind.tools.common.flags import canonical
from framebind.tools.measure.measure import Schedule
from framebind.tools.measure.tool_flags import REFUSED
from support.command_line import commands_in
from support.tiny_models import CPU_ONLY, G, Op, T, build, chain

desktop = pytest.mark.parametrize("context", ["gl"], indirect=True)
QUICK = ("--num_runs=2", "--warmup_runs=0")
FLAGS = """
num_runs min_secs max_secs run_delay run_frequency num_threads use_caching benchmark_name output_prefix warmup_runs
warmup_min_secs verbose dry_run report_peak_memory_footprint memory_footprint_check_interval_ms
graph signature_to_run_for list_signatures input_layer input_layer_shape input_layer_value_range input_layer_value_files
allow_fp16 require_full_delegation enable_op_profiling op_profiling_output_mode op_profiling_output_file
max_profiling_buffer_entries allow_dynamic_profiling_buffer_increase profiling_output_csv_file export_model_runtime_info
model_runtime_info_output_file print_preinvoke_state print_postinvoke_state release_dynamic_tensors
optimize_memory_for_large_tensors disable_delegate_clustering enable_builtin_cast_constant_cache output_filepath
output_proto_filepath result_file_path tensor_name_display_length tensor_type_display_length alloc_type_display_length
max_delegated_partitions min_nodes_per_partition first_delegate_node_index last_delegate_node_index
delegate_serialize_dir delegate_serialize_token use_gpu gpu_precision_loss_allowed gpu_experimental_enable_quant
gpu_inference_for_sustained_speed gpu_backend gpu_wait_type gpu_invoke_loop_times use_nnapi nnapi_execution_preference
nnapi_execution_priority nnapi_accelerator_name disable_nnapi_cpu nnapi_allow_fp16 nnapi_allow_dynamic_dimensions
nnapi_use_burst_mode use_hexagon hexagon_profiling hexagon_lib_path use_xnnpack xnnpack_force_fp16 use_coreml
coreml_version external_delegate_path external_delegate_options stable_delegate_loader_settings perf_options_list
option_benchmark_run_delay random_shuffle_benchmark_runs
""".split()
"""The parameters in LiteRT's tools/benchmark: README.md, benchmark_model.cc, benchmark_tflite_model.cc, and those of
the delegates' registrar.
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(chain("EXP", "NEG", shape=(1, 4, 5, 3), signature="serve"))
    return path


def benchmark(*words: object) -> Result:
    return CliRunner().invoke(app, ["benchmark", *map(str, words)], catch_exceptions=False)


def row_of(*words: object) -> dict[str, Any]:
    """The one row of a command line as JSON."""
    done = benchmark(*words, "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["runs"]
    return row


def message(done: Result) -> str:
    """The text of an error of the command line, without its frame."""
    assert done.exit_code == 2
    return " ".join(done.output.replace("│", "").split())


def test_each_flag_is_taken_or_refused_by_name() -> None:
    command: Any = typer.main.get_command(app)
    options = {name.lstrip("-") for parameter in commands_in(command)["benchmark"].params for name in parameter.opts}
    assert not [flag for flag in FLAGS if canonical(flag) not in {canonical(option) for option in options}]
    assert set(REFUSED) - {canonical(flag) for flag in FLAGS} == {
        "xnnpack-weight-cache-file-path", "stable-delegate-settings-file"
    }  # fmt: skip


@pytest.mark.parametrize("threads", [4, 1, -1])
def test_the_command_lines_of_its_readme(model: Path, threads: int) -> None:
    done = benchmark(f"--graph={model}", f"--num_threads={threads}", *QUICK)
    assert done.exit_code == 0, done.output
    assert "LiteRT's CPU interpreter is timed, as in benchmark_model" in done.stderr
    assert "tiny on litert-cpu" in done.stdout and "Inference timings in us: Init: " in done.stdout


@desktop
def test_a_run_on_the_gpu_has_its_defaults(model: Path, context: fb.GlContext) -> None:
    """``gpu_precision_loss_allowed`` is on there, and tensors are in CPU memory."""
    flags = "--use_gpu=true --use_nnapi=false --use_xnnpack=true --max_profiling_buffer_entries=2048"
    row = row_of(f"--graph={model}", *flags.split(), "--require_full_delegation=true", *QUICK)
    assert (row["on"], row["io"]) == ("gl f16", "read")
    row = row_of(f"--graph={model}", "--use_gpu=1", "--gpu_precision_loss_allowed=false", "--bound", *QUICK)
    assert (row["on"], row["io"]) == ("gl f32", "bound")
    assert row_of(model, "--allow_fp16=true", *QUICK)["on"] == "gl f16"
    assert row_of(model, *QUICK)["io"] == "bound", "framebind's own spelling has framebind's defaults"


@desktop
@pytest.mark.parametrize("way", ["--read", "--bound"])
def test_outputs_become_a_file(model: Path, tmp_path: Path, way: str, context: fb.GlContext) -> None:
    file, values = tmp_path / "outputs.bin", tmp_path / "x.bin"
    x = np.linspace(-1, 1, 60, dtype=np.float32)
    x.tofile(values)
    inputs = ("--input_layer=x", "--input_layer_shape=1,4,5,3", f"--input_layer_value_files=x:{values}")
    for words in ((f"--graph={model}",), (model, "--backend=gl", way)):
        done = benchmark(*words, *QUICK, *inputs, f"--output_filepath={file}")
        assert done.exit_code == 0, done.output
        np.testing.assert_allclose(np.fromfile(file, np.float32), -np.exp(x), rtol=1e-5)
        file.unlink()
    assert "give one model" in message(benchmark(model, "--backend=gl,cpu", f"--output_filepath={file}"))


@desktop
def test_the_profile_becomes_csv(model: Path, tmp_path: Path, context: fb.GlContext) -> None:
    file = tmp_path / "profile.csv"
    words = (f"--graph={model}", "--use_gpu=true", "--enable_op_profiling=true", *QUICK)
    modes = (
        (f"--profiling_output_csv_file={file}",),
        ("--op_profiling_output_mode=csv", f"--op_profiling_output_file={file}"),
    )
    for mode in modes:
        assert benchmark(*words, *mode).exit_code == 0
        (row,) = csv.DictReader(file.open(encoding="utf-8"))
        assert row["model"] == "tiny" and float(row["milliseconds"]) >= 0
        file.unlink()
    assert "model,on,dispatch,kernel,milliseconds\n" in benchmark(*words, "--op_profiling_output_mode=csv").stdout
    assert "the file is CSV" in message(benchmark(*words, f"--op_profiling_output_file={file}"))
    assert "it times the GPU's steps" in message(benchmark(f"--graph={model}", "--enable_op_profiling=true"))


@desktop
def test_full_delegation_is_required(tmp_path: Path, context: fb.GlContext) -> None:
    mixed = tmp_path / "mixed.tflite"
    mixed.write_bytes(chain("EXP", CPU_ONLY))
    words = (f"--graph={mixed}", "--use_gpu=true", *QUICK)
    assert benchmark(*words).exit_code == benchmark(*words, "--require_full_delegation=false").exit_code == 0
    done = benchmark(*words, "--require_full_delegation=true")
    assert done.exit_code == 1 and "Disallowed CPU fallback detected: 1 of 2 operators of mixed" in done.stderr


def test_tensors_signatures_and_values_are_printed(model: Path) -> None:
    done = benchmark(f"--graph={model}", *QUICK, "--print_preinvoke_state=true", "--verbose=true")
    assert "before the first frame" in done.stdout and "after the last frame" not in done.stdout
    assert "1x4x5x3" in done.stdout and "runs: [2]\n" in done.stderr
    assert "after the last frame" in benchmark(f"--graph={model}", *QUICK, "--print_postinvoke_state=1").stdout
    assert benchmark(f"--graph={model}", "--list_signatures=true").stdout == "tiny: serve\n"


def test_a_flag_may_be_on_or_off_by_its_value(model: Path) -> None:
    for on in ("--dry_run=true", "--dry_run=1", "--dry_run"):
        assert "Nothing was run" in benchmark(f"--graph={model}", on).stdout
    for off in ("--dry_run=false", "--dry-run=0"):
        assert "Nothing was run" not in benchmark(f"--graph={model}", off, *QUICK).stdout
    assert benchmark(f"--graph={model}", "--dry_run=maybe").exit_code == 2


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("--use_nnapi=true", "Invalid value for --use-nnapi: 'true' is refused: framebind runs on OpenGL,"),
        ("--use_xnnpack=false", "Invalid value for --use-xnnpack: 'false' is refused: LiteRT's CPU kernels are"),
        ("--output_proto_filepath=a.pb", "it writes a protocol buffer of TensorFlow; --json prints the same figures"),
        ("--min_nodes_per_partition=2", "use --max-partitions"),
        ("--use_gpu=true --backend=cpu", "Invalid value for --use-gpu: it contradicts --backend cpu"),
        ("--op_profiling_output_mode=proto", "'proto' is not one of 'stdout', 'csv'"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(model: Path, word: str, why: str) -> None:
    assert why in message(benchmark(f"--graph={model}", *word.split(), *QUICK))


def test_a_command_line_without_a_model_says_so() -> None:
    assert "give a model" in message(benchmark(*QUICK)) and "give a model" in message(benchmark("--list_signatures"))


# Inputs ---------------------------------------------------------------------------------------------------------------


def test_ranges_are_of_integers(tmp_path: Path) -> None:
    path, file = tmp_path / "tokens.tflite", tmp_path / "outputs.bin"
    tensors = [T("serving:0", (1, 400), dtype="int32"), T("negative", (1, 400), dtype="int32")]
    path.write_bytes(build(G(tensors, [Op("NEG", [0], [1])], [0], [1])))
    # the names of layers stand for the inputs in their order, and are the model's own here in the second line
    for name in ("tokens", "serving:0"):
        given = (f"--input_layer={name}", "--input_layer_shape=1,50")
        if name == "tokens":
            given += ("--input_layer_value_range=tokens,3,5",)
        else:
            values = tmp_path / "values.bin"
            np.repeat(np.arange(3, 6, dtype=np.int32), 17)[:50].tofile(values)
            given += (f"--input_layer_value_files=serving::0:{values}",)
        done = benchmark(f"--graph={path}", *given, f"--output_filepath={file}", *QUICK)
        assert done.exit_code == 0, done.output
        found = np.fromfile(file, np.int32)
        assert found.size == 50 and set(found) == {-3, -4, -5}, "both ends are drawn"
    wrong = ("--input_layer=tokens", "--input_layer_shape=1,50", "--input_layer_value_range=tokens,5,3")
    assert "is no NAME,LEAST,GREATEST" in message(benchmark(f"--graph={path}", *wrong))


def test_a_range_of_an_input_of_floats_is_an_error(model: Path) -> None:
    words = ("--input_layer=x", "--input_layer_shape=1,4,5,3", "--input_layer_value_range=x,0,9")
    with pytest.raises(fb.ModelError, match="range 0 to 9 is one of integers; input 'x' takes float32"):
        benchmark(f"--graph={model}", *words, *QUICK)


# Schedules ------------------------------------------------------------------------------------------------------------


def test_seconds_prolong_a_benchmark(model: Path) -> None:
    assert row_of(f"--graph={model}", *QUICK, "--min_secs=0.2")["latency"]["count"] > 2
    assert row_of(f"--graph={model}", "--num_runs=2", "--warmup_runs=1", "--warmup_min_secs=0")["latency"]["count"] == 2
    limited = row_of(
        f"--graph={model}", "--num_runs=3", "--warmup_runs=0", "--min_secs=5", "--run_frequency=40", "--max_secs=0.2"
    )
    assert limited["latency"]["count"] <= 9, "40 per second for 0.2 s"


def test_a_schedule_ends_when_frames_and_seconds_are_enough() -> None:
    never, now = 0.0, float("inf")  # moments at which the first frame began: long ago, and not yet
    assert Schedule(runs=2, least_seconds=1.0).goes_on(1, never) and not Schedule(runs=2).goes_on(2, never)
    assert not Schedule(runs=2, seconds=1.0).goes_on(1, never) and Schedule(runs=2, seconds=1.0).goes_on(0, never)
    assert Schedule(runs=2, least_seconds=1.0).goes_on(2, now)
