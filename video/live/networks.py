"""Networks that several streams share: one compiled program per model and size, and the bindings of each stream."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

import framebind as fb

from ..answers.postprocess import Postprocess
from ..apis import GL
from ..layouts import Layout
from ..model_metadata import ModelMetadata
from ..model_options import ModelOptions
from ..models import find_model
from ..network import Kept, Network
from ..sampling import Sampling

Shapes = tuple[tuple[int, tuple[int, ...]], ...]
"""The inputs that were resized: tensor indices and shapes."""


class Networks:
    """The networks of a context. ``for_stream`` gives a stream its own use of one."""

    def __init__(self, options: ModelOptions, timer: fb.GlTimer) -> None:
        self._options, self._timer = options, timer
        self._networks: dict[tuple[Path, Shapes], SharedNetwork] = {}
        self._recurrent: dict[tuple[Path, str], SharedNetwork] = {}
        """The networks of recurrent models by stream."""
        self.file_inputs: dict[Path, dict[int, tuple[int, ...]]] = {}
        """The inputs of each model as its file has them."""

    def __len__(self) -> int:
        """The number of networks: each is compiled once."""
        return len(self._networks)

    def for_stream(self, name: str, stream: str) -> StreamNetwork:
        """A stream's use of the network of a known model or a file. Raises ModelError.

        A recurrent model is made for each ``stream``, and its states are zeros when a stream begins or comes back.
        """
        path = find_model(name)
        known = [shared for (other, _), shared in self._networks.items() if other == path]
        shared = known[0] if known else self._make(path, ())
        if shared.network.feedback:
            if (path, stream) not in self._recurrent:
                is_taken = shared in self._recurrent.values()
                self._recurrent[path, stream] = self._make(path, ()) if is_taken else shared
            shared = self._recurrent[path, stream]
            shared.network.reset_feedback()
        return StreamNetwork(self, path, shared)

    def resized(self, use: StreamNetwork, tensor: int, shape: tuple[int, ...]) -> SharedNetwork:
        """The network of a stream's model whose input has that shape: one that is there, or a new one."""
        shared = use.shared
        if shared.network.inputs[tensor] == shape:
            return shared
        key = (use.path, ((tensor, shape),))
        if key not in self._networks or shared.network.feedback:
            if shared.user is None:  # nobody has run it: it takes the shape itself
                self._networks = {k: other for k, other in self._networks.items() if other is not shared}
            else:
                shared = self._make(use.path, key[1])
            self._networks[key] = shared
            shared.network.resize(tensor, shape)
        return self._networks[key]

    def _make(self, path: Path, shapes: Shapes) -> SharedNetwork:
        network = Network(path, self._options.options(path), self._timer, further=self._options.further)
        shared = SharedNetwork(network)
        self._networks[path, shapes] = shared
        self.file_inputs.setdefault(path, shared.network.inputs)
        return shared


class SharedNetwork:
    """A network, and the stream whose objects are bound to it."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.user: StreamNetwork | None = None


class StreamNetwork(Network):
    """A stream's use of a network that others use too: before it runs, its own objects are bound again."""

    def __init__(self, networks: Networks, path: Path, shared: SharedNetwork) -> None:
        self.path, self.mode, self.shared, self.api = path, "gpu", shared, GL
        self._networks, self._is_resized = networks, False
        self._bound, self._on_cpu, self._outputs = {}, frozenset(), None
        self.feedback = shared.network.feedback

    @property
    def runs_on(self) -> str:
        return self.shared.network.runs_on

    @property
    def options(self) -> fb.GpuDelegateOptions:
        return self.shared.network.options

    @property
    def inputs(self) -> dict[int, tuple[int, ...]]:
        # Another stream may have resized the network, and the size that this one asks for must not depend on that.
        return self.shared.network.inputs if self._is_resized else self._networks.file_inputs[self.path]

    @property
    def outputs(self) -> dict[int, tuple[int, ...]]:
        return self.shared.network.outputs

    @property
    def names(self) -> dict[int, str]:
        return self.shared.network.names

    @property
    def layouts(self) -> dict[int, Layout]:
        return self.shared.network.layouts

    @property
    def choices(self) -> dict[int, int]:
        return self.shared.network.choices

    @property
    def takes_bytes(self) -> bool:
        return self.shared.network.takes_bytes

    @property
    def metadata(self) -> ModelMetadata:
        return self.shared.network.metadata

    def takes_any_size(self, tensor: int) -> bool:
        return self.shared.network.takes_any_size(tensor)

    def resize(self, tensor: int, shape: tuple[int, ...]) -> None:
        """Take the network of that shape, which is made if there is none."""
        self.shared, self._is_resized = self._networks.resized(self, tensor, shape), True

    def bind_sampled(self, tensor: int, obj: Any, sampling: Sampling) -> None:
        """Bind an object for this stream's runs."""
        self._bound[tensor] = obj, sampling
        if self.shared.user is self:
            self.shared.network.bind_sampled(tensor, obj, sampling)

    def computed_on_cpu(self) -> frozenset[int]:
        return self.shared.network.computed_on_cpu()

    def output(self, tensor: int) -> npt.NDArray[Any]:
        return self.shared.network.output(tensor)

    def postprocess(
        self,
        owner: object,
        content: bytes,
        inputs: Sequence[Any],
        feedback: Mapping[str, str] | None = None,
        further: int = 0,
    ) -> Postprocess:
        return self.shared.network.postprocess(owner, content, inputs, feedback, further)

    def keep(self, owner: object, key: Hashable, make: Callable[[], Kept]) -> Kept:
        return self.shared.network.keep(owner, key, make)

    def mark(self, stage: str) -> None:
        self.shared.network.mark(stage)

    def run(self) -> None:
        if self.shared.user is not self:
            self.shared.user = self
            self.shared.network.rebind(self)
        self.shared.network.run()
