"""What connection plugins without SSH have in common: each command stands for itself."""

from __future__ import annotations

import subprocess
from abc import abstractmethod
from pathlib import Path
from typing import Any, Self

from ansible.errors import AnsibleConnectionFailure, AnsibleFileNotFound
from ansible.plugins.connection import ConnectionBase

# Status, standard output and standard error.
Answer = tuple[int, bytes, bytes]


class CommandConnection(ConnectionBase):
    """Stateless: a command of the provider's for each command, and for each file."""

    has_pipelining = True

    @abstractmethod
    def run(self, command: str, **feed: Any) -> Answer:
        """Run it in a shell on the host; `feed` is what subprocess takes as standard input.

        Raises:
            AnsibleConnectionFailure: it was never there, or went with what it ran in.
        """

    def _connect(self) -> Self:
        self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> Answer:
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self.run(cmd, input=in_data or b"")

    def put_file(self, in_path: str, out_path: str) -> None:
        super().put_file(in_path, out_path)
        source = Path(in_path)
        if not source.is_file():
            raise AnsibleFileNotFound(f"there is no file {in_path}")
        with source.open("rb") as file:
            _copied(self.run(f"cat >{self._shell.quote(out_path)}", stdin=file))

    def fetch_file(self, in_path: str, out_path: str) -> None:
        super().fetch_file(in_path, out_path)
        content = _copied(self.run(f"cat {self._shell.quote(in_path)}", stdin=subprocess.DEVNULL))
        Path(out_path).write_bytes(content)

    def reset(self) -> None:
        """Nothing is kept between commands."""

    def close(self) -> None:
        self._connected = False


def _copied(answer: Answer) -> bytes:
    status, content, error = answer
    if status != 0:
        raise AnsibleConnectionFailure(error.decode(errors="replace"))
    return content
