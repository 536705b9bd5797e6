"""``python -m attn_faithful.cli``."""

import sys

from attn_faithful.cli.main import main

sys.exit(main())
