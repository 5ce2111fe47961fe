"""The kernels as TensorFlow computes them, and their operands."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from workloads.deep_ops.kernels import GATES, Convolution, Gemm, Kernel, Recurrent


@dataclass(frozen=True)
class Call:
    """A function that is ready to be called, with what it is called with, and where."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    device: str

    def __call__(self) -> Any:
        """One call; on a GPU it may return before the result is there."""
        with tf.device(self.device):
            return self.function(*self.operands)


def prepared(kernel: Kernel, direction: str, dtype: str, device: str, seed: int) -> Call:
    """The kernel with operands of its sizes, filled with small random numbers.

    A kernel of one operation is that operation: a compiled function around it takes another tenth
    of the CPU time of a call of some milliseconds. A layer of cells is a compiled function.
    """
    shapes, compute = _planned(kernel, direction)
    generator = tf.random.Generator.from_seed(seed)
    where = f"/{device}:0"
    with tf.device(where):
        operands = tuple(
            tf.cast(generator.uniform(shape, -0.1, 0.1), getattr(tf, dtype)) for shape in shapes
        )
        if isinstance(kernel, Recurrent):
            # The trace itself: tf.function's own dispatch costs more than a small kernel.
            compute = tf.function(compute, autograph=False).get_concrete_function(*operands)
    return Call(compute, operands, where)


def _planned(kernel: Kernel, direction: str) -> tuple[list[list[int]], Callable[..., Any]]:
    """The shapes of the operands, and what is computed of them."""
    if isinstance(kernel, Gemm):
        return _gemm(kernel)
    if isinstance(kernel, Convolution):
        return _convolution(kernel, direction)
    return _recurrent(kernel, direction)


def _gemm(kernel: Gemm) -> tuple[list[list[int]], Callable[..., Any]]:
    one, other = (letter == "t" for letter in kernel.transposes)
    first, second = [kernel.rows, kernel.inner], [kernel.inner, kernel.columns]
    shapes = [first[::-1] if one else first, second[::-1] if other else second]
    return shapes, lambda a, b: tf.matmul(a, b, transpose_a=one, transpose_b=other)


def _convolution(kernel: Convolution, direction: str) -> tuple[list[list[int]], Callable[..., Any]]:
    images, filters, result = kernel.shapes
    strides = [1, *kernel.stride, 1]
    pads = [0, 0, *[pad for pad in kernel.pad for _ in range(2)], 0, 0]
    how = {"strides": strides, "padding": "EXPLICIT", "explicit_paddings": pads}
    if direction == "backward_data":
        return [filters, result], lambda f, y: tf.raw_ops.Conv2DBackpropInput(
            input_sizes=images, filter=f, out_backprop=y, **how
        )
    if direction == "backward_filter":
        return [images, result], lambda x, y: tf.raw_ops.Conv2DBackpropFilter(
            input=x, filter_sizes=filters, out_backprop=y, **how
        )
    return [images, filters], lambda x, f: tf.raw_ops.Conv2D(input=x, filter=f, **how)


def _recurrent(kernel: Recurrent, direction: str) -> tuple[list[list[int]], Callable[..., Any]]:
    hidden, batch, steps = kernel.hidden, kernel.batch, kernel.steps
    gates = GATES[kernel.cell]
    cell = {"vanilla": _vanilla, "lstm": _lstm, "gru": _gru}[kernel.cell]
    inputs = [steps, batch, hidden]

    def forward(weights: Any, sequence: Any) -> Any:
        def step(time: Any, states: Any, written: Any) -> Any:
            states = cell(weights, gates, sequence[time], states)
            return time + 1, states, written.write(time, states[0])

        begin = tf.zeros([batch, hidden], sequence.dtype)
        states = (begin, begin) if kernel.cell == "lstm" else (begin,)
        written = tf.TensorArray(sequence.dtype, steps, element_shape=begin.shape)
        _, _, written = tf.while_loop(
            lambda time, *_: time < steps,
            step,
            (tf.constant(0), states, written),
            maximum_iterations=steps,
        )
        return written.stack()

    def training(weights: Any, sequence: Any, slope: Any) -> Any:
        result = forward(weights, sequence)
        return [result, *tf.gradients(result, [weights, sequence], slope)]

    weights = [hidden, gates * hidden]
    if direction == "training":
        return [weights, inputs, inputs], training
    return [weights, inputs], forward


def _gates(weights: Any, gates: int, state: Any) -> list[Any]:
    """The product of the state for each gate."""
    return list(tf.split(state @ weights, gates, axis=1))


def _vanilla(weights: Any, gates: int, entered: Any, states: Any) -> Any:
    (only,) = _gates(weights, gates, states[0])
    return (tf.nn.relu(only + entered),)


def _lstm(weights: Any, gates: int, entered: Any, states: Any) -> Any:
    """Hochreiter and Schmidhuber 1997, with a forget gate (Gers et al. 2000)."""
    state, memory = states
    kept, forgotten, new, shown = (part + entered for part in _gates(weights, gates, state))
    memory = tf.sigmoid(forgotten) * memory + tf.sigmoid(kept) * tf.tanh(new)
    return tf.sigmoid(shown) * tf.tanh(memory), memory


def _gru(weights: Any, gates: int, entered: Any, states: Any) -> Any:
    """Cho et al. 2014, arXiv:1406.1078, the reset gate after the product, as cuDNN has it."""
    (state,) = states
    reset, update, new = _gates(weights, gates, state)
    kept = tf.sigmoid(update + entered)
    candidate = tf.tanh(entered + tf.sigmoid(reset + entered) * new)
    return ((1 - kept) * candidate + kept * state,)
