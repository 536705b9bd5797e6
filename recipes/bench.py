"""Make or read AttentionBench and measure on it; the flags are those of ``attn-faithful bench``.

accelerate launch recipes/bench.py --smoke
"""

import sys

from attn_faithful.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
