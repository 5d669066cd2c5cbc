"""`python -m fnwork`."""

import sys

from fnwork.cli import main

sys.exit(main())
