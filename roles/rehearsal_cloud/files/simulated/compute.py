"""nova-compute with a driver of ours: Nova loads drivers from its own package alone."""

import sys
from pathlib import Path

import nova.virt
from nova.cmd.compute import main

nova.virt.__path__.append(str(Path(__file__).parent / "drivers"))
sys.exit(main())
