"""`python -m pykcp` is the program `kcp`."""

import sys

from pykcp.cli.kcp import main

sys.exit(main())
