"""LiteRT's interpreter of models with operators that a program registers itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Literal

from ai_edge_litert.interpreter import Delegate, OpResolverType

from .gpu_delegate import GpuDelegate
from .interpreter import Interpreter


class InterpreterWithCustomOps(Interpreter):
    """An Interpreter whose LiteRT has further operators, which run on the CPU.

    Parameters
    ----------
    custom_op_registerers
        For each operator, the name of a function in LiteRT's process, or a function, that takes the address of a
        ``MutableOpResolver`` and registers it.

    All other arguments are Interpreter's, and are given by name.

    Raises
    ------
    ValueError
        If a name is no function's.

    Examples
    --------
    >>> interpreter = fb.InterpreterWithCustomOps([lambda resolver: None], model_path="model.tflite", delegate="cpu")
    >>> interpreter.allocate_tensors()
    """

    def __init__(
        self,
        custom_op_registerers: Sequence[str | Callable[[int], object]] | None = None,
        *,
        model_path: str | bytes | os.PathLike[str] | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[GpuDelegate | Delegate] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        delegate: Literal["auto", "cpu"] | None = None,
    ) -> None:
        self._custom_op_registerers = list(custom_op_registerers or ())
        super().__init__(
            model_path,
            model_content,
            experimental_delegates,
            num_threads,
            experimental_op_resolver_type,
            experimental_preserve_all_tensors,
            experimental_disable_delegate_clustering,
            experimental_default_delegate_latest_features,
            experimental_compress_quantization_zero_points,
            experimental_disable_delegate_node_fusion,
            experimental_force_delegate_node_profiling,
            delegate=delegate,
        )
