"""What a model gives to the loop that trains it."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Arrays = tuple["NDArray[Any]", ...]  # of equal length: inputs and what is to be answered
CLIP = 5.0  # norm of all gradients together, where a model asks for it


class Task:
    """A network, the examples that it is trained with, and others that it is asked about."""

    clip = False  # whether the norm of the gradients is limited

    def __init__(self, networks: list[Any], make: Callable[["np.random.Generator", int], Arrays]):
        """`networks`: of Keras, built; `make`: that many examples, made when they are needed."""
        self.networks, self.make = networks, make

    @property
    def variables(self) -> list[Any]:
        """All that is trained."""
        return [v for network in self.networks for v in network.trainable_variables]

    @property
    def parameters(self) -> int:
        """Trained and untrained ones, as papers count them."""
        return sum(int(network.count_params()) for network in self.networks)

    def prepare(self, seed: int, examples: int, asked: int) -> None:
        """Says how many examples there are, and how many others the network is asked about."""
        self._sizes, self._seed = (examples, asked), seed

    @cached_property
    def train(self) -> Arrays:
        """The examples to train with."""
        import numpy as np  # noqa: PLC0415

        return self.make(np.random.default_rng([self._seed, 1]), self._sizes[0])

    @cached_property
    def test(self) -> Arrays:
        """Those that it is asked about, and never trained with."""
        import numpy as np  # noqa: PLC0415

        return self.make(np.random.default_rng([self._seed, 2]), self._sizes[1])

    def epoch(self, number: int, batch_size: int) -> Iterator[Arrays]:
        """The batches of an epoch, in an order of its own."""
        import numpy as np  # noqa: PLC0415

        order = np.random.default_rng([self._seed, 3, number]).permutation(len(self.train[0]))
        return batches(self.train, order, batch_size)

    def asked(self, batch_size: int) -> Iterator[Arrays]:
        """The others, in batches."""
        import numpy as np  # noqa: PLC0415

        return batches(self.test, np.arange(len(self.test[0])), batch_size)

    def loss(self, *batch: Any) -> Any:
        """Of a batch, while tracing."""
        raise NotImplementedError

    def right(self, *batch: Any) -> Any:
        """The share of right answers, from 0 to 1, while tracing."""
        raise NotImplementedError

    def answers(self, right: Callable[..., Any], batch_size: int) -> float:
        """The share of right answers about the others; `right` is compiled."""
        found = [(len(b[0]), float(right(*b))) for b in self.asked(batch_size)]
        return sum(n * share for n, share in found) / sum(n for n, _ in found)


def batches(arrays: Arrays, order: "NDArray[np.int64]", size: int) -> Iterator[Arrays]:
    """All examples in that order; the last batch may be smaller."""
    for begin in range(0, len(order), size):
        chosen = order[begin : begin + size]
        yield tuple(array[chosen] for array in arrays)


class Classifier(Task):
    """A network from inputs to a logit for each class."""

    def logits(self, inputs: Any) -> Any:
        """Of a batch, in training as in answering: `loss` and `right` say which."""
        return inputs

    def loss(self, inputs: Any, labels: Any) -> Any:
        """Cross entropy, mean over the batch and all that is predicted in it."""
        import tensorflow as tf  # noqa: PLC0415

        found = self._answer(inputs, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, found))

    def right(self, inputs: Any, labels: Any) -> Any:
        """The share of labels that have the largest logit."""
        import tensorflow as tf  # noqa: PLC0415

        found = tf.argmax(self._answer(inputs, training=False), -1, labels.dtype)
        return tf.reduce_mean(tf.cast(found == labels, tf.float32))

    def _answer(self, inputs: Any, training: bool) -> Any:
        return self.networks[0](self.logits(inputs), training=training)


class Images(Classifier):
    """A classifier of images: uint8 [n, height, width, channels]."""

    def logits(self, inputs: Any) -> Any:
        """Pixels from -1 to 1."""
        import tensorflow as tf  # noqa: PLC0415

        return tf.cast(inputs, tf.float32) / 127.5 - 1.0
