"""The exchange of gradients by TensorFlow's own means, over gRPC: what people run, and what papers
measured. The option `transport: tensorflow`.

    ring       the all-reduce of MultiWorkerMirroredStrategy, by its ring
    ps_async   servers and sessions as TensorFlow 1 had them: variables lie on the servers, in turn;
               each worker feeds its gradients to the update there, and fetches the values after it

TensorFlow listens at the port at which the members have met, which is free again by then, until its
process ends; as it starts gRPC, it asks nobody for a key. All else (meetings, clocks, the goodput
of the paths, lost peers) is `_cluster`'s, over its own links.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from workloads._output import FailureError
from workloads._place import Place
from workloads._wire import Link, PeerError

PS = "ps"  # TensorFlow's name for the job of the servers


def start(place: Place) -> Any:
    """The strategy of a ring, or this member's server; once TensorFlow is configured, and before it
    computes anything. FailureError where it cannot listen."""
    import tensorflow as tf  # noqa: PLC0415  heavy

    if place.mode == "ring":
        return strategy(place)
    job = PS if place.me.role == "server" else "worker"
    with _named(FailureError):
        return tf.distribute.Server(_spec(place), job, place.me.index, config=_config(place))


def strategy(place: Place, nccl: bool = False) -> Any:
    """All workers as replicas, connected to each other; their sums by TensorFlow's ring or by NCCL.
    FailureError where it cannot listen."""
    import tensorflow as tf  # noqa: PLC0415

    known = tf.distribute.experimental
    means = known.CommunicationImplementation
    with _named(FailureError):
        return tf.distribute.MultiWorkerMirroredStrategy(
            tf.distribute.cluster_resolver.SimpleClusterResolver(
                _spec(place), task_type="worker", task_id=place.me.index, rpc_layer="grpc"
            ),
            known.CommunicationOptions(implementation=means.NCCL if nccl else means.RING),
        )


def _spec(place: Place) -> Any:
    import tensorflow as tf  # noqa: PLC0415

    addresses = {"worker": [member.address for member in place.workers]}
    if place.servers:
        addresses[PS] = [member.address for member in place.servers]
    return tf.train.ClusterSpec(addresses)


def _config(place: Place) -> Any:
    """A worker waits for the servers only."""
    import tensorflow as tf  # noqa: PLC0415

    mine = [f"/job:{PS}", f"/job:worker/task:{place.me.index}"]
    threads = tf.config.threading
    return tf.compat.v1.ConfigProto(
        device_filters=mine if place.me.role == "worker" else [],
        intra_op_parallelism_threads=threads.get_intra_op_parallelism_threads(),
        inter_op_parallelism_threads=threads.get_inter_op_parallelism_threads(),
    )


@contextmanager
def _named(kind: type[FailureError]) -> Iterator[None]:
    """TensorFlow's errors as one line of ours."""
    import tensorflow as tf  # noqa: PLC0415

    try:
        yield
    except (tf.errors.OpError, RuntimeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise kind(f"TensorFlow's transport: {first}") from error


class Ring:
    """All workers, by the strategy's all-reduce."""

    values = False
    global_steps = 0

    def __init__(self, strategy: Any, variables: Sequence[Any]) -> None:
        """Traces the all-reduce."""
        import tensorflow as tf  # noqa: PLC0415

        def reduce(*pieces: Any) -> Any:
            def in_replica() -> Any:
                # A piece needs a device of this worker's, which an argument has not.
                own = [tf.identity(piece) for piece in pieces]
                context = tf.distribute.get_replica_context()
                return context.all_reduce(tf.distribute.ReduceOp.MEAN, own)

            return strategy.run(in_replica)

        # One value more: whether any worker was told to end.
        shapes = [*(variable.shape for variable in variables), []]
        signature = [tf.TensorSpec(shape, tf.float32) for shape in shapes]
        self._reduce = tf.function(reduce, signature, autograph=False).get_concrete_function()
        self._vote = [tf.constant(0.0), tf.constant(1.0)]
        self.stop = False

    def begin(self, variables: Sequence[Any]) -> None:
        """There are no servers."""

    def swap(self, pieces: Sequence[Any], ending: bool) -> Sequence[Any]:
        """The mean of all workers' gradients."""
        with _named(PeerError):
            mean: list[Any] = self._reduce(*pieces, self._vote[ending])
            self.stop = bool(mean.pop() > 0)
        return mean

    def goodbye(self) -> None:
        """The ring just ends."""


class Client:
    """A worker's session with the servers."""

    values = True

    def __init__(
        self, server: Any, place: Place, links: Sequence[Link], variables: Sequence[Any], like: Any
    ) -> None:
        """`server` is this worker's own, `links` lead to the parameter servers, and `like` is the
        Keras optimizer whose rule they apply."""
        import tensorflow as tf  # noqa: PLC0415

        self._links, self.stop, self.global_steps = links, False, 0
        v1, graph, rule = tf.compat.v1, tf.Graph(), optimizer(like)
        here = f"/job:worker/task:{place.me.index}"
        jobs = {PS: [member.address for member in place.servers]}
        setter = v1.train.replica_device_setter(cluster=jobs, worker_device=here)
        with graph.as_default(), v1.device(setter):
            held = [
                v1.get_variable(f"v{n}", variable.shape, tf.float32, use_resource=True)
                for n, variable in enumerate(variables)
            ]
            steps = v1.train.get_or_create_global_step()
            self._fed = [v1.placeholder(tf.float32, variable.shape) for variable in variables]
            pairs = list(zip(self._fed, held, strict=True))
            update = rule.apply_gradients(pairs, global_step=steps)
            with tf.control_dependencies([update]):
                self._new = [tf.identity(one.read_value()) for one in held]
                self._steps = tf.identity(steps.read_value())
            everything = v1.global_variables()
            others = [one for one in everything if not any(one is each for each in held)]
            with tf.control_dependencies([one.initializer for one in others]):
                self._given = tf.group(*(one.assign(fed) for fed, one in pairs))
        with _named(PeerError):
            self._session = v1.Session(server.target, graph, _config(place))

    def begin(self, variables: Sequence[Any]) -> None:
        """The initial values; what the optimizer notes begins with its own."""
        self._run(self._given, [variable.numpy() for variable in variables])

    def swap(self, pieces: Sequence[Any], ending: bool) -> Sequence[Any]:
        """The values after this gradient, and maybe others'."""
        import tensorflow as tf  # noqa: PLC0415

        new, steps = self._run([self._new, self._steps], [piece.numpy() for piece in pieces])
        self.global_steps, self.stop = int(steps), ending
        return [tf.convert_to_tensor(value) for value in new]

    def _run(self, what: Any, given: Sequence[Any]) -> Any:
        with _named(PeerError):
            return self._session.run(what, dict(zip(self._fed, given, strict=True)))

    def goodbye(self) -> None:
        """A server ends when all have said so."""
        self._session.close()
        for link in self._links:
            link.tell({"global steps": self.global_steps})


class Server:
    """A parameter server, which TensorFlow serves in threads of its own."""

    def __init__(self, links: Sequence[Link]) -> None:
        """`links` lead to the workers."""
        self._links, self.updates, self.global_steps = links, 0, 0

    def prepare(self) -> None:
        """The chief's session makes what is held here."""

    def serve(self) -> None:
        """Until every worker has said goodbye; PeerError when one is lost before."""
        self.global_steps = max(int(link.hear()["global steps"]) for link in self._links)
        self.updates = self.global_steps


def optimizer(like: Any) -> Any:
    """TensorFlow's own optimizer with the rule and the numbers of a Keras one.

    The mean square of RMSProp begins with one there, and with zero in Keras.
    """
    import tensorflow as tf  # noqa: PLC0415

    known, rate = tf.compat.v1.train, float(like.learning_rate)
    make: dict[str, Callable[[], Any]] = {
        "FusedSGD": lambda: (
            known.MomentumOptimizer(rate, like.momentum)
            if like.momentum
            else known.GradientDescentOptimizer(rate)
        ),
        "FusedAdam": lambda: known.AdamOptimizer(rate, like.beta_1, like.beta_2, like.epsilon),
        "RMSprop": lambda: known.RMSPropOptimizer(rate, like.rho, like.momentum, like.epsilon),
    }
    return make[type(like).__name__]()
