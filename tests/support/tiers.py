"""The three tiers of tests: what a session of each runs.

quick    under a minute: what needs no GPU, with every operator case on the null device; one GL case per operator
default  minutes: everything, with operator cases chosen by cover, each real model once, and other tests of kernels once
         per value of a parameter: on desktop GL, a part of them on OpenCL or GL ES too
all      everything, every operator case on every device, and 3,000 examples of each property that hypothesis draws
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import settings

from support.environment import GL_DEVICES, is_wanted
from support.models import MODELS

Tier = Literal["quick", "default", "all"]
Values = frozenset[tuple[str, str]]
"""The parameters of a test without its device: names and values."""
SIMPLE = (str, bytes, int, float, tuple, list, dict, type(None))
"""Types of a parameter's values that are compared by their text. Others hold arrays, whose text takes long to make."""
TIERS: tuple[Tier, ...] = ("quick", "default", "all")
EXAMPLES: dict[Tier, int] = {"quick": 20, "default": 50, "all": 3000}
"""The number of examples that hypothesis draws for each property."""
GPU_FIXTURES = frozenset({"context", "cl_context", "gpu", "gl_and_cl", "tool"})
"""A test that asks for one of them is not quick; one that asks for ``device`` is, on the null device."""
QUICK_FOLDERS = ("kernels", "delegate", "read", "house")
SLOW_FILES = frozenset(
    {
        "test_cache_key.py", "test_tune.py", "test_doctests.py", "test_without_opencv.py", "test_features.py",
        "test_fuzz.py", "test_fuzz_structure.py", "test_load.py", "test_soak_script.py",
    }
)  # fmt: skip
"""Files of these folders that make a context of their own, start processes or run models: they are not quick either."""
DEALT_FILES = frozenset(
    {
        "test_graphs.py", "test_devices.py", "test_expanded.py", "test_separable_pair.py", "test_channels_first.py",
        "test_planes.py", "test_bound_arrays.py", "test_batches.py", "test_exports.py", "test_networks.py",
        "test_fused_attention.py", "test_layer_norm.py", "test_feedback.py", "test_selection.py",
    }
)  # fmt: skip
"""Files beside those of tests/kernels whose parameters show the same on each API. All APIs run the first of these."""
UNDEALT = frozenset(
    {
        "test_extremes.py::test_a_gelu_far_below_zero_is_zero",  # its two formulas failed on PoCL one without the other
        "test_quantized.py::test_model_computes_litert_s_integers",  # REPEATED chooses its devices
    }
)
"""Tests of kernels that run on every API for each of their parameters."""
SMALLEST_MODEL = "face_detection_front"


GRAPHS = {"gl": 8, "cl:pocl": 2}
"""The number of random graphs that run on a device. All are lowered on the null device."""


def load_profile(tier: Tier) -> None:
    """Let hypothesis draw the tier's number of examples."""
    settings.register_profile(tier, max_examples=EXAMPLES[tier], deadline=None)
    settings.load_profile(tier)


def chosen(tier: Tier, items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests that a session of this tier runs, of those that were collected."""
    if tier == "all":
        return list(items)
    if tier == "quick":
        return [item for item in items if _takes_run(item) or (_is_quick(item) and not _is_repeated(item))]
    kept = [item for item in items if _takes_run(item) or not _is_repeated(item)]
    dropped = _repeated_of_kernels(kept)
    return [item for item in kept if _takes_run(item) or item not in dropped]


def _takes_run(item: pytest.Item) -> bool:
    """Whether it is an operator case: these were chosen as parameters."""
    return "operator_run" in _fixtures(item)


def _repeated_of_kernels(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The tests of kernels and of graphs that show on a real device what others show.

    The text of a kernel is the same on each API but for the first lines and access. The first test of each function of
    tests/kernels runs on desktop GL, and on OpenCL or GL ES by turns; after it, what shows a new value of a parameter
    runs on desktop GL, each sixth on OpenCL: its compiler takes three times as long.
    """
    functions: dict[str, list[tuple[pytest.Item, str, Values]]] = {}
    for item in items:
        device = _real_device(item) if _is_dealt(item) else ""
        if device and is_wanted(device):
            values = {(name, _key(value)) for name, value in _parameters(item).items() if value is not device}
            functions.setdefault(_name(item), []).append((item, _api(device), frozenset(values)))
    dropped: set[pytest.Item] = set()
    others = itertools.cycle(("cl", "gles"))
    for found in functions.values():
        there = {api for _, api, _ in found}
        later = [api for api in ("gl", "gl", "gl", "gl", "gl", "cl") if api in there] or ["gles"]
        first = there if Path(found[0][0].path).name in DEALT_FILES else {"gl", next(others)} & there or there
        dealt = _deal([values for _, _, values in found], first, later)
        dropped |= {item for item, api, values in found if api not in dealt.get(values, ())}
    return dropped


def _is_dealt(item: pytest.Item) -> bool:
    path = Path(item.path)
    of_kernels = "kernels" in (path.parent.name, path.parent.parent.name)
    return (of_kernels or path.name in DEALT_FILES) and _name(item) not in UNDEALT


def _deal(combinations: Iterable[Values], first: Iterable[str], later: Sequence[str]) -> dict[Values, Iterable[str]]:
    """The APIs that run each combination of parameters: ``first`` run the first; of ``later`` one those that show a
    new value.
    """
    turns = itertools.cycle(later)
    dealt: dict[Values, Iterable[str]] = {}
    shown: set[tuple[str, str]] = set()
    for combination in dict.fromkeys(combinations):
        if not dealt:
            dealt[combination] = first
        elif combination - shown:
            dealt[combination] = (next(turns),)
        shown |= combination
    return dealt


def _real_device(item: pytest.Item) -> str:
    """The device with a driver among the test's parameters, or ""."""
    named = [value for value in _parameters(item).values() if isinstance(value, str)]
    return next((name for name in named if name in GL_DEVICES or name.startswith("cl:")), "")


def _key(value: object) -> str:
    """Text that tells the values of a parameter apart."""
    return str(value) if isinstance(value, SIMPLE) else str(id(value))


def _api(device: str) -> str:
    return "cl" if device.startswith("cl:") else device


def _is_quick(item: pytest.Item) -> bool:
    path = Path(item.path)
    if (
        not {path.parent.name, path.parent.parent.name} & {*QUICK_FOLDERS}
        or path.name in SLOW_FILES
        or _fixtures(item) & GPU_FIXTURES
    ):
        return False
    return "device" not in _fixtures(item) or _parameters(item).get("device") == "null"


def _is_repeated(item: pytest.Item) -> bool:
    repeats = REPEATED.get(_name(item)) or REPEATED.get(Path(item.path).name)
    return repeats is not None and repeats(_parameters(item))


def _name(item: pytest.Item) -> str:
    """The file and the function, without parameters."""
    return f"{Path(item.path).name}::{getattr(item, 'originalname', item.name)}"


SHOWN_BY_DEMOS = frozenset({"pose_landmark_lite", "hand_landmark_lite", "deeplabv3_257_mv_gpu"})
"""Models whose results tests of the demos compare with LiteRT's in the default tier."""


def _is_other_run(parameters: Mapping[str, Any]) -> bool:
    """Every second model gets a random input, in f32 and in halves by turns; on GL ES only the smallest does."""
    number = MODELS.index(parameters["model"])
    if (
        parameters["model"].name in SHOWN_BY_DEMOS
        or number % 2 == 0
        or parameters["storage"] != ("f16" if number % 4 == 1 else "f32")
    ):
        return True
    return not _runs_on(parameters, "gl" if number % 4 == 1 else "cl")


def _is_other_picture(parameters: Mapping[str, Any]) -> bool:
    """The other models get a photograph, in f32 and in halves by turns."""
    number = MODELS.index(parameters["model"])
    if (
        parameters["model"].name in SHOWN_BY_DEMOS
        or number % 2
        or parameters["storage"] != ("f32" if number % 4 == 0 else "f16")
    ):
        return True
    return not _runs_on(parameters, "cl" if number % 4 == 0 else "gl")


def _runs_on(parameters: Mapping[str, Any], api: str) -> bool:
    device = _api(str(parameters["gpu"]))
    return device == api or (device == "gles" and parameters["model"].name == SMALLEST_MODEL)


def _is_other_quantized(parameters: Mapping[str, Any]) -> bool:
    """An integer model runs in f32, on desktop GL; PoseNet is the demo's, test_poses.py."""
    return parameters["half"] or "posenet" in parameters["name"] or _api(parameters["gpu"]) != "gl"


def _is_other_resize(parameters: Mapping[str, Any]) -> bool:
    """Whether a device with a driver has run this pair of a size, a way to place pixels and a filter already."""
    change = parameters["change"]
    number = change.size[0] + change.align_corners + change.half_pixel_centers
    return parameters["device"] != "null" and number % 2 != change.bilinear


def _always(_: Mapping[str, Any]) -> bool:
    return True


def _on(parameter: str, *values: object) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a parameter has one of the values."""
    return lambda parameters: parameters.get(parameter) in values


def _is_later_graph(parameters: Mapping[str, Any]) -> bool:
    """A graph's kernels take llvmpipe half a second to compile; PoCL needs more."""
    return parameters["seed"] >= GRAPHS[parameters["gpu"]]


REPEATED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    # In halves a smaller model shows it: the larger one compiles for 15 s.
    "test_certify.py::test_a_model_is_checked_with_pictures": lambda parameters: (
        parameters["half"] and parameters["model"] == "hair_segmentation"
    ),
    "test_share.py::test_a_video_goes_through_a_model_on_opencl_without_copies": _always,  # textures go through others
    "test_share.py::test_objects_freed_in_any_order_do_not_crash": _always,  # as those of one API, test_cl_device.py
    "test_demos.py::test_the_steady_state_copies_only_camera_and_recording": _always,  # a trace shows it, test_trace.py
    "test_live.py::test_files_that_cannot_be_written_are_said_and_the_demo_goes_on": _always,
    "test_soak_script.py::test_a_short_run_is_watched": _always,
    "test_benchmarks.py::test_models_run_on_opencl": _always,
    "test_gpu_holistic.py::test_a_whole_person_is_followed_as_in_its_pixels": _on("name", "cl"),  # compiles for 24 s
    "test_live.py::test_the_likeliest_classes_are_drawn_over_moving_frames": _always,
    "test_benchmarks.py::test_benchmark_counts_what_the_engine_counts": _always,  # a real model, compiled on PoCL
    "test_shapes.py::test_shapes_that_no_file_declares_are_litert_s": _on("step", 1),
    "test_stage.py::test_a_pool_of_processes": _always,  # test_processes.py has processes
    "test_docs.py::test_a_program_of_its_own_runs": _always,  # processes: a pool's, and Ray's
    "test_outputs.py::test_masks_are_a_video_pictures_and_run_lengths": _on("task", "segment"),
    "test_tasks.py::test_rows_are_those_of_the_cpu": _on("task", "blur", "segment", "face", "matte"),
    "test_copying.py::test_segmentation_copied_is_segmentation_bound": _always,  # as style transfer and faces
    "test_copying.py::test_on_opencl_the_same_is_drawn_without_copies": _always,  # as in test_share.py
    "test_share.py::test_a_hundred_thousand_hand_overs_leak_nothing": _always,
    "test_tune.py::test_what_is_kept_and_strange_is_measured_anew": _always,  # decoding is tested without a GPU
    "test_tune.py::test_what_was_kept_for_a_device_with_more_room_is_refused": _always,
    "test_live.py::test_on_a_dense_display_window_and_text_have_more_pixels": _on("dots_per_inch", 96),
    "test_resized.py::test_a_convolution_resizes_what_it_reads": _is_other_resize,
    "test_squeeze_excite.py::test_matrix_units_add_up_what_they_write": _always,  # no device here has them
    "test_squeeze_excite.py::test_what_is_added_before_the_mean_is_added_where_the_last_summand_is_written": _always,
    "test_squeeze_excite.py::test_a_block_of_an_input_is_two_steps": _always,
    "test_matrix_conv.py::test_a_group_adds_up_what_it_writes": _always,  # no device here has matrix units
    "test_row_conv.py::test_a_model_keeps_its_bounds": _always,  # tiles have tests; a real model, compiled on PoCL
    "test_cl_device.py::test_auto_falls_back_with_one_line_saying_why": _on("context", "gles"),
    "test_compatibility.py::test_the_command_prints_tables": _on("context", "gles"),
    "test_live.py::test_figures_and_the_legend_of_classes_lie_beside_each_other": _on("size", "320x240"),
    "test_tune.py::test_what_is_tuned_computes_the_same": _always,  # each candidate's kernels have tests
    "test_tune.py": _on("starts", "gl"),  # the same for each API, and llvmpipe compiles the candidates longer
    "test_processes.py::test_a_worker_that_is_killed_loses_and_doubles_nothing": _always,  # as without the command
    "test_processes.py::test_a_job_that_no_worker_survives_is_given_up": _always,  # four processes
    "test_division.py::test_joined_parts_are_what_one_run_makes": _always,  # the joins alone are in video/test_parts.py
    "test_overlap.py::test_a_model_of_any_size_is_compiled_once_for_each_size": _always,  # a large model
    "test_processes.py::test_an_interrupted_run_ends_its_workers_and_goes_on": _always,  # processes of two runs
    "test_remote.py::test_urls_travel_to_workers": _always,  # processes, as in test_processes.py
    "test_random_graphs.py::test_graph": _is_later_graph,
    "test_kernels.py::test_every_variant_compiles": _always,  # 20 s each; one of each kernel compiles
    "test_kernels.py::test_the_kernels_of_every_operator_case_compile": _always,  # minutes of NVIDIA's compiler
    "test_kernels.py::test_a_model_s_kernels_and_program_compile": _always,
    "test_models.py::test_random_input": _is_other_run,
    "test_models.py::test_photograph_through_a_bound_texture": _is_other_picture,
    "test_models.py::test_gl_and_opencl_agree": _always,  # each agrees with LiteRT
    "test_channels_first.py::test_a_stock_export_makes_a_picture_of_a_photograph": _on("gpu", "gles", "cl:pocl"),
    "test_batch_models.py::test_frames_are_those_of_litert": _always,  # small models: test_batches.py
    "test_channels_first.py::test_two_outputs_of_a_transposed_value_are_both_written": _on("gpu", "gles", "cl:pocl"),
    "test_bound_arrays.py::test_a_model_s_arrays_are_what_litert_computes": _always,  # small models: every layout
    "test_quantized.py::test_gl_and_opencl_compute_the_same_integers": _always,
    "test_quantized.py::test_model_computes_litert_s_integers": _is_other_quantized,
    "test_quantized.py::test_quantized_style_transfer_is_closer_to_the_float_model_than_litert": _always,
    "test_shapes.py": lambda parameters: parameters.get("step") == 1,  # all operator cases take half a minute
    "test_one_dispatch.py::test_a_model_computes_the_same_bits_in_one_dispatch": _always,  # others: small programs
    "test_plots.py::test_a_hostile_name_runs_nothing_in_a_page": _always,  # its chart is looked at in the other test
    "test_plots.py::test_a_benchmark_and_a_diff_are_drawn": _always,  # a page with vega in it takes seconds
    "test_lookalikes.py": _on("gpu", "gles", "cl:pocl"),  # passes know no API
    "test_one_dispatch.py::test_on_gl_too": _always,  # llvmpipe takes half a minute to compile the program
    "test_delegate.py::test_litert_own_interpreter_takes_the_delegate": _on("context", "gles"),
    "test_soak.py::test_a_thousand_frames_take_no_more_than_two_hundred": _always,  # others count objects sooner
    "test_soak.py::test_frames_leave_no_python_objects": _on("context", "gles"),
    "test_soak.py::test_thirty_interpreters_leave_nothing": _always,  # test_delegate.py counts those of a small model
    "test_trace.py::test_a_trace_shows_no_copy_but_the_cameras": _on("context", "gles"),
    "test_trace.py::test_the_counter_shows_no_byte_but_the_cameras": _always,  # the trace shows more
    "test_copying.py::test_what_is_detected_copied_is_what_is_detected_bound": _on("name", "pose_landmark_lite"),
    "test_live.py::test_each_demo_shows_moving_frames_and_answers_keys": _always,  # the keys of one demo are tried
    "test_rtsp.py::test_a_stall_of_four_streams_and_a_long_absence": _always,  # in the default tier one restart
    "test_streams.py::test_frames_that_come_in_bursts_are_shown_by_the_stream_s_clock": _always,  # plays for seconds
    "test_watch.py::test_networks_of_any_size_are_shared_by_size": _always,  # it compiles the style model twice
    "test_watch.py::test_a_signal_ends_it_in_good_order": _always,  # a process of its own
    "test_page.py::test_the_page_in_a_browser": _always,
    "test_camera_in_chromium.py::test_it_shows_and_decodes_the_frames": _on("count", 300),  # 60 show the same
    "test_bundled_model.py::test_it_is_as_near_to_its_teacher_as_its_figures_say": _always,
    "test_bundled_model.py::test_it_runs_on_the_gpu_at_any_size_as_on_the_cpu": _on("width", 256, 384, 512),
}
"""Parameters that repeat at a high price what others show, by test or file. ``make test-all`` runs them."""


def _fixtures(item: pytest.Item) -> frozenset[str]:
    return frozenset(getattr(item, "fixturenames", ()))


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    callspec = getattr(item, "callspec", None)
    return {} if callspec is None else callspec.params
