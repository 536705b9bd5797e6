"""``attn-faithful attefa`` under a launcher: ``accelerate launch recipes/attefa.py --data mock-1 --encoder mlp``."""

import sys

from attn_faithful.cli import main

if __name__ == "__main__":
    sys.exit(main(["attefa", *sys.argv[1:]]))
