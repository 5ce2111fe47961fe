"""What starts a campaign at boot and after a crash: printed, for a person to install."""

from __future__ import annotations

import getpass
import shlex
import sys
from pathlib import Path

from strata.errors import Refused

from analysis.shown import shown

UNIT = """\
# {path}: systemctl daemon-reload && systemctl enable --now {unit}
[Unit]
Description=Strata campaign {name}
After=network-online.target
Wants=network-online.target
# What fails again and again is left alone until the next boot, or until somebody starts it.
StartLimitIntervalSec=1h
StartLimitBurst=5

[Service]
User={user}
WorkingDirectory={project}
ExecStart={command}
Restart=on-failure
RestartSec=60
# 1: ended with failures; 2: refused; 129, 130, 143: stopped by a signal; 141: nobody read the end.
RestartPreventExitStatus=1 2 129 130 141 143
SuccessExitStatus=143
KillMode=mixed
TimeoutStopSec=180

[Install]
WantedBy=multi-user.target
"""


def lines(name: str, file: Path, project: Path) -> list[str]:
    """A unit for systemd, and a line for cron where there is no systemd. Raises Refused."""
    if shown(str(file), keep="") != str(file):
        raise Refused(
            "the path of a campaign that is started at boot has no control characters",
            given=repr(str(file))[:200],
            then="give the file another name",
        )
    words = [sys.executable, "-m", "campaign", "run", str(file)]
    unit = f"strata-campaign-{name}.service"
    text = UNIT.format(
        **{"path": f"/etc/systemd/system/{unit}", "unit": unit, "name": name},
        **{"project": project, "command": shlex.join(words), "user": getpass.getuser()},
    )
    # In a unit a percent sign begins a specifier.
    text = text.replace("%", "%%")
    cron = f"@reboot cd {shlex.quote(str(project))} && {shlex.join(words)}"
    return [*text.splitlines(), "", "# Without systemd, a line for `crontab -e`:", cron]
