"""What brings the gradients of all workers together: by Strata's own means or MPI here, by
TensorFlow's in `_grpc`.

    carrier.begin(variables)         the servers, where there are any, get the initial values
    new = carrier.swap(pieces, ending) a gradient of each variable in, what is new of each out
    carrier.goodbye()                after the last step

What comes back is the mean gradient, or the new values where servers hold the variables. Here the
variables lie in one vector, each at an aligned place, so that TensorFlow takes over every piece
without a copy.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from workloads._servers import ALIGN, Client, Vector, aligned
from workloads._wire import Link


class Carrier(Protocol):
    """One worker's side."""

    values: bool  # whether what comes back are values; else they are gradients
    stop: bool  # whether the workers agreed in the last step to end

    @property
    def global_steps(self) -> int:
        """Of all workers, where servers count them."""

    def begin(self, variables: Sequence[Any]) -> None:
        """Gives the initial values to the servers: the chief does, before anybody trains."""

    def swap(self, pieces: Sequence[Any], ending: bool) -> Sequence[Any]:
        """One exchange; PeerError when a peer is gone."""

    def goodbye(self) -> None:
        """After the last step of this worker."""


class Flat:
    """Where each variable lies in one vector."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._shapes = [variable.shape for variable in variables]
        self._begins, self.length = [], 0
        for shape in self._shapes:
            self._begins.append(self.length)
            self.length += -(-int(shape.num_elements()) // ALIGN) * ALIGN

    def views(self, vector: Vector) -> list[Vector]:
        """The piece of each variable, in its shape."""
        return [
            vector[begin : begin + int(shape.num_elements())].reshape(shape)
            for begin, shape in zip(self._begins, self._shapes, strict=True)
        ]


class Reducer(Protocol):
    """What sums a vector over all workers: `_ring.Ring`, `_mpi.World`."""

    def reduce(self, vector: Vector, scale: float = 1.0) -> None:
        """In place, the sum times `scale`, the same in each; PeerError when a peer is gone."""


class AllReduced:
    """All workers' gradients, summed as one vector."""

    values = False
    global_steps = 0

    def __init__(self, reducer: Reducer, workers: int, variables: Sequence[Any]) -> None:
        """`reducer` sums over so many workers."""
        flat = Flat(variables)
        self._reducer, self._scale = reducer, 1.0 / workers
        # One value more: how many workers were told to end.
        self._vector = aligned(flat.length + ALIGN)
        self._vote = self._vector[flat.length : flat.length + 1]
        self._views, self.stop = flat.views(self._vector), False
        self._new = tensors(self._views)

    def begin(self, variables: Sequence[Any]) -> None:
        """There are no servers."""

    def swap(self, pieces: Sequence[Any], ending: bool) -> Sequence[Any]:
        """The mean of all workers' gradients."""
        for view, piece in zip(self._views, pieces, strict=True):
            view[...] = piece
        self._vote[0] = ending
        self._reducer.reduce(self._vector, self._scale)
        self.stop = bool(self._vote[0] > 0)
        return self._new

    def goodbye(self) -> None:
        """There are no servers."""


class OwnServers:
    """A worker of parameter servers."""

    values = True

    def __init__(self, links: Sequence[Link], synchronous: bool, variables: Sequence[Any]) -> None:
        """`links` in the order of the servers."""
        flat = Flat(variables)
        self._client, self._synchronous = Client(links, flat.length), synchronous
        self._gradient, self._values = aligned(flat.length), aligned(flat.length)
        self._views, self._new_views = flat.views(self._gradient), flat.views(self._values)
        self._new, self.stop = tensors(self._new_views), False

    @property
    def global_steps(self) -> int:
        """As the first server counted them after this worker's last step."""
        return self._client.global_steps

    def begin(self, variables: Sequence[Any]) -> None:
        """All of them, as one vector."""
        for view, variable in zip(self._new_views, variables, strict=True):
            view[...] = variable.numpy()
        self._client.give(self._values)

    def swap(self, pieces: Sequence[Any], ending: bool) -> Sequence[Any]:
        """The values after this gradient, and maybe others'."""
        for view, piece in zip(self._views, pieces, strict=True):
            view[...] = piece
        said = self._client.exchange(self._gradient, self._values, ending)
        self.stop = said if self._synchronous else ending
        return self._new

    def goodbye(self) -> None:
        """A server ends when all have said so."""
        self._client.goodbye()


def tensors(views: Sequence[Vector]) -> list[Any]:
    """Tensors in the very memory of the views: what is written there later is in them.

    TensorFlow takes a tensor for constant, so the views are written only between its functions.
    """
    import tensorflow as tf  # noqa: PLC0415  heavy

    return [tf.experimental.dlpack.from_dlpack(view.__dlpack__()) for view in views]
