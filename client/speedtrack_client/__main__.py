"""``python -m speedtrack_client``."""

import sys

from speedtrack_client.commands import main

sys.exit(main())
