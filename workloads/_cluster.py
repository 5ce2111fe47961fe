"""What a training loop needs of its peers: to meet them, and to train together with them.

    with joined(context) as team:            Alone, or a Team
        team.meet("begin")                   all are here
        step = team.step(gradients, ...)     (batch) -> loss, exchange included
        team.finish(context)                 all are done; clocks once more

Every process has a link to the chief (worker 0), over which they meet; a failure goes the same
way, so that everyone names the member that failed first and not the neighbour that followed it.
"""

import hashlib
import select
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from workloads._declare import Metric, Port
from workloads._options import BadInputError, Options
from workloads._output import Context, FailureError
from workloads._place import OWN, TRANSPORTS, Place
from workloads._tensorflow import ThreadOptions
from workloads._termination import Termination
from workloads._wire import AbortedError, Link, Links, PeerError, find, wait_for

if TYPE_CHECKING:
    from workloads._carriers import Carrier

PINGS = 20
# What every workload declares whose workers share their gradients.
PORTS = (Port("peers", "tcp", ("worker", "server")),)
SERVER_METRICS = (
    Metric("updates", "Updates that a server made", "1"),
    Metric("counted_steps", "Global steps that a server counted", "1"),
)
REASON_S = 1.0  # how long to wait for the first cause of a failure, once it is noticed


@dataclass(frozen=True)
class SharedOptions(ThreadOptions):
    """Options of a workload whose workers share their gradients."""

    transport: Literal["strata", "tensorflow", "mpi"] = field(
        default="strata",
        metadata={
            "help": "what carries the gradients: Strata's own sockets, TensorFlow's gRPC, or MPI; "
            "of a lone worker nothing",
            "unit": "",
        },
    )


class Alone:
    """A worker without peers: nothing to meet, nothing to exchange."""

    index = 0
    workers = 1
    took = 0.0  # s, exchange of the last step
    chief = True
    serves = False

    def connect(self) -> None:
        """What carries the gradients is started, when TensorFlow is configured."""

    def meet(self, name: str, value: Any = None, workers_only: bool = False) -> dict[str, Any]:
        """Waits until all members are here; what each of them says, by its name."""
        del name, workers_only
        return {"worker 0": value}

    def begin_window(self) -> None:
        """The measured window begins: times and bytes count from here."""

    def end_window(self) -> None:
        """The measured window is over."""

    @property
    def global_steps(self) -> int | None:
        """Gradients of all workers since the begin, where only a server can count them."""
        return None

    def ends(self, termination: Termination) -> bool:
        """Whether the last step was the last: all workers of synchronous steps end together."""
        return termination.asked

    def finish(self, context: Context) -> None:
        """All are done with the measured window."""


class Team(Alone):
    """This process among its peers."""

    def __init__(self, place: Place, transport: str = OWN, name: str = "") -> None:
        """Finds all peers of that workload; PeerError naming those who are not there."""
        if place.mode not in TRANSPORTS[transport]:
            raise BadInputError(
                f"transport: {transport} has {', '.join(TRANSPORTS[transport])} "
                f"(example: transport: {OWN}); given: {place.mode}"
            )
        self.place, self.transport, self.name = place, transport, name
        self.theirs: Any = None  # what TensorFlow or MPI carries the gradients with
        self.over = False  # whether all are done, or this process has failed
        self.index, self.workers = place.me.index, len(place.workers)
        self.chief, self.serves = place.me == place.chief, place.me.role == "server"
        self.links: Links = find(place)
        self.control = {link.peer.name: link for link in self.links.of("control")}
        self.data = self.links.of("data")
        self.exchange: Exchange | None = None
        self._clocks: list[tuple[float, float]] = []  # offset, half the round trip
        self.paths: dict[str, dict[str, float]] = {}  # bytes/s, of a receiver by its sender
        self.window: tuple[int, int, int, int] | None = None

    def connect(self) -> None:
        """TensorFlow or MPI listens from here on, if it is to carry the gradients. FailureError."""
        if self.transport == "tensorflow":
            from workloads import _grpc  # noqa: PLC0415

            self.theirs = _grpc.start(self.place)
        elif self.transport == "mpi":
            from workloads import _mpi  # noqa: PLC0415

            self.theirs = _mpi.World(self)

    def ring(self) -> tuple[Link, Link] | None:
        """Links onward and from behind."""
        if self.place.mode != "ring" or self.workers == 1:
            return None
        return next(v for k, v in self.links.opened.items() if k[0] == "ring"), next(
            v for k, v in self.links.accepted.items() if k[0] == "ring"
        )

    def meet(self, name: str, value: Any = None, workers_only: bool = False) -> dict[str, Any]:
        """All members, or the workers only, say something and learn what the others said."""
        mine = self.place.me.name
        if not self.chief:
            link = self.control[self.place.chief.name]
            link.tell({"at": name, "value": value})
            return dict(self._heard(link, name)["values"])
        present = self.place.workers if workers_only else self.place.members
        waiting = {member.name: self.control[member.name] for member in present[1:]}
        links, values = list(waiting.values()), {mine: value}
        while waiting:
            ready = wait_for(waiting.values(), select.POLLIN)
            for who, link in list(waiting.items()):
                if link.fd in ready:
                    values[who] = self._heard(link, name)["value"]
                    del waiting[who]
        for link in links:
            link.tell({"at": name, "values": values})
        return values

    def _heard(self, link: Link, name: str) -> dict[str, Any]:
        message = link.hear()
        if message.get("at") != name:
            raise PeerError(f"{link.peer} is at {message.get('at')!r}, this process at {name!r}")
        return message

    def agree(self, name: str, value: Any) -> None:
        """All must say the same; FailureError naming one that differs from the chief."""
        values = self.meet(name, value)
        for who, said in values.items():
            if said != values[self.place.chief.name]:
                raise FailureError(
                    f"{name}: must be the same in all members; {who} has {said!r}, "
                    f"{self.place.chief.name} has {values[self.place.chief.name]!r}"
                )

    def synchronise(self) -> None:
        """Estimates the offset of this clock to the chief's, as NTP does, by the fastest of 20."""
        if self.chief:
            for link in self.control.values():
                for _ in range(PINGS):
                    link.hear()
                    link.tell({"clock": time.monotonic()})
            self._clocks.append((0.0, 0.0))
            return
        link, best = self.control[self.place.chief.name], (float("inf"), 0.0)
        for _ in range(PINGS):
            begin = time.monotonic()
            link.tell({"ping": True})
            theirs = link.hear()["clock"]
            end = time.monotonic()
            best = min(best, ((end - begin) / 2, theirs - (begin + end) / 2))
        self._clocks.append((best[1], best[0]))

    def clock(self) -> tuple[float, float]:
        """Offset to the chief's clock and its error (s): the mean of begin and end."""
        offsets = [offset for offset, _ in self._clocks]
        drift = (max(offsets) - min(offsets)) / 2
        return statistics.mean(offsets), max(half for _, half in self._clocks) + drift

    def measure_paths(self) -> None:
        """Goodput of every path while all are in use both ways, as training uses them."""
        from workloads import _goodput  # noqa: PLC0415

        ring = self.ring()
        outgoing, incoming = ([ring[0]], [ring[1]]) if ring else (self.data, self.data)
        self.meet("all will send")
        found = _goodput.measure(outgoing, incoming)
        self.paths = self.meet("all have sent", {x.peer.name: rate for x, rate in found.items()})

    def begin_window(self) -> None:
        """After all workers are here."""
        if self.exchange is not None:
            self.meet("measured", workers_only=True)
            for times in self.exchange.times.values():
                times.clear()
        links = self._training_links()
        sent, received = sum(x.sent for x in links), sum(x.received for x in links)
        self.window = (sent, received, 0, 0)

    def end_window(self) -> None:
        """Bytes since its begin."""
        links, begin = self._training_links(), self.window or (0, 0, 0, 0)
        sent, received = sum(x.sent for x in links), sum(x.received for x in links)
        self.window = (begin[0], begin[1], sent - begin[0], received - begin[1])

    def _training_links(self) -> list[Link]:
        return self.data + self.links.of("ring")

    @property
    def global_steps(self) -> int | None:
        """As the first server counted them after this worker's last step."""
        if self.exchange is None or self.place.synchronous:
            return None
        return self.exchange.carrier.global_steps

    def ends(self, termination: Termination) -> bool:
        """What the workers agreed on in the last step."""
        return self.exchange.carrier.stop if self.exchange is not None else termination.asked

    def finish(self, context: Context) -> None:
        """Says goodbye to the servers, waits for all, compares clocks again, sums up."""
        if self.exchange is not None:
            self.exchange.carrier.goodbye()
        self.meet("end")
        self.over = True
        self.synchronise()
        self.meet("clocks compared")
        if self.transport == "mpi":
            context.environment["mpi"] = self.theirs.about()
        context.cluster = self.summary()

    def summary(self) -> dict[str, Any]:
        """The key `cluster` of result.json."""
        offset, error = self.clock()
        window = self.window or (0, 0, 0, 0)
        exchange = self.exchange
        counted = self.transport == OWN  # what the others send they do not tell
        return {
            "transport": self.transport,
            "role": self.place.me.role,
            "index": self.index,
            "mode": self.place.mode,
            "clock_offset_s": offset,
            "clock_error_s": error,
            "paths": self.paths,
            "bytes_per_step": exchange.bytes_per_step if exchange else None,
            "sent": window[2] if counted else None,
            "received": window[3] if counted else None,
            "exchange_median_s": exchange.median("exchange") if exchange else None,
            "compute_median_s": exchange.median("compute") if exchange else None,
            "weights": exchange.weights() if exchange and self.place.synchronous else None,
        }

    def first_cause(self, error: BaseException) -> BaseException:
        """The failure as the one who failed first told it, if that reaches us in time."""
        if not isinstance(error, PeerError) or isinstance(error, AbortedError):
            return error
        deadline = time.monotonic() + REASON_S
        links = [link for link in self.control.values() if link.socket.fileno() >= 0]
        while links and (left := deadline - time.monotonic()) > 0:
            for fd in wait_for(links, select.POLLIN, left):
                link = next(each for each in links if each.fd == fd)
                try:
                    link.hear()
                except AbortedError as aborted:
                    return aborted
                except PeerError:
                    links.remove(link)
        return error

    def abort(self, error: BaseException) -> None:
        """Tells all that are linked to the chief, and the chief, why this process ends."""
        if isinstance(error, PeerError):
            reason = str(error)
        else:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            reason = f"{self.place.me} failed: {first}"
        for link in self.control.values():
            try:
                link.tell({"abort": reason})
            except (PeerError, OSError):
                continue


@contextmanager
def joined(context: Context, options: Options) -> Iterator[Alone]:
    """Alone, or the team with all peers found, clocks compared and paths measured.

    All members must have the same options. A failure inside is told to all of them.
    """
    if context.place is None:
        yield Alone()
        return
    # Another workload's `transport` is its own affair, and so is what it listens with.
    transport = options.transport if isinstance(options, SharedOptions) else OWN
    team = Team(context.place, transport, context.name)
    try:
        team.agree("options", repr(options))
        context.mark("joined")
        team.synchronise()
        team.measure_paths()
        yield team
    except BaseException as error:
        team.over = True
        cause = team.first_cause(error)
        team.abort(cause)
        if cause is not error:
            raise cause from error
        raise
    finally:
        team.links.close()


def digest(arrays: Sequence[Any]) -> str:
    """SHA-256 over the bytes of arrays, in order."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(memoryview(array).cast("B"))
    return found.hexdigest()


class Exchange:
    """A step of this worker: its gradients out, the update of all workers in."""

    def __init__(
        self,
        team: Team,
        context: Context,
        gradients: Any,
        variables: Sequence[Any],
        optimizer: Any,
    ) -> None:
        """`gradients`: a tf.function, (batch) -> loss and a float32 gradient of each variable."""
        import tensorflow as tf  # noqa: PLC0415  heavy

        self.team, self.termination = team, context.termination
        self.variables = [getattr(v, "value", v) for v in variables]
        self.bytes_per_step = 4 * sum(int(v.shape.num_elements()) for v in self.variables)
        self._gradients = gradients
        self._compute: Callable[..., Any] | None = None
        self.took = 0.0
        self.times: dict[str, list[float]] = {"exchange": [], "compute": []}
        self.carrier = carrier(team, self.variables, optimizer)

        def update(*new: Any) -> None:
            found = [tf.cast(n, v.dtype) for n, v in zip(new, self.variables, strict=True)]
            if not self.carrier.values:
                optimizer.apply(found, list(variables))
                return
            for variable, value in zip(self.variables, found, strict=True):
                variable.assign(value)

        signature = [tf.TensorSpec(v.shape, tf.float32) for v in self.variables]
        # The trace itself: tf.function's own dispatch costs as much as a small step.
        self._take = tf.function(update, signature, autograph=False).get_concrete_function()
        team.exchange = self
        self._begin()

    def _begin(self) -> None:
        """All workers have the same weights, and so have the servers."""
        weights = self.weights()
        found = self.team.meet("initial weights", weights)
        if any(other not in (None, weights) for other in found.values()):
            raise FailureError(
                "the initial weights differ between workers: same seed, other image? "
                f"this is {self.team.place.me}"
            )
        if self.carrier.values:
            if self.team.chief:
                self.carrier.begin(self.variables)
            self.team.meet("servers ready")

    def __call__(self, *batch: Any) -> float:
        """One step; the loss of this worker's batch before it."""
        begin = time.monotonic()
        if self._compute is None:
            self._compute = self._gradients.get_concrete_function(*batch)
        loss, pieces = self._compute(*batch)
        value = float(loss)
        ready = time.monotonic()
        new = self.carrier.swap(pieces, self.termination.asked)
        done = time.monotonic()
        self._take(*new)
        end = time.monotonic()
        self.took = self.team.took = done - ready
        self.times["exchange"].append(done - ready)
        self.times["compute"].append(end - begin - self.took)
        return value

    def median(self, what: str) -> float | None:
        """Of the measured steps (s)."""
        return statistics.median(self.times[what]) if self.times[what] else None

    def weights(self) -> str:
        """SHA-256 of the trained weights."""
        return digest([variable.numpy() for variable in self.variables])


def carrier(team: Team, variables: Sequence[Any], optimizer: Any) -> "Carrier":
    """What brings the gradients of these variables together, as mode and transport say."""
    from workloads import _carriers, _grpc  # noqa: PLC0415  they import numpy
    from workloads._ring import Ring  # noqa: PLC0415

    place, ring = team.place, team.place.mode == "ring"
    if team.transport == "tensorflow":
        if ring:
            return _grpc.Ring(team.theirs, variables)
        return _grpc.Client(team.theirs, place, team.data, variables, optimizer)
    if ring:
        own = Ring(team.index, team.workers, team.ring())
        return _carriers.AllReduced(team.theirs or own, team.workers, variables)
    return _carriers.OwnServers(team.data, place.synchronous, variables)


def serve(team: Team, context: Context, make: Callable[[], Any]) -> None:
    """A parameter server's whole life after it has joined; `make` gives a new optimizer."""
    from workloads import _grpc, _servers  # noqa: PLC0415

    server: _grpc.Server | _servers.Server = (
        _grpc.Server(team.data)
        if team.transport != OWN
        else _servers.Server(team.data, make, team.place.synchronous)
    )
    found = team.meet("initial weights")
    if len({weights for weights in found.values() if weights is not None}) > 1:
        raise FailureError("the initial weights differ between workers")
    server.prepare()
    context.mark("built")
    team.meet("servers ready")
    team.begin_window()
    server.serve()
    team.end_window()
    team.finish(context)
    context.scalar("updates", server.updates)
    context.scalar("counted_steps", server.global_steps)
