"""``python -m speedtrack_client``."""

import sys

from speedtrack_client.main import main

sys.exit(main())
