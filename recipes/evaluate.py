"""Run the tests on a trained model; the flags are those of ``attn-faithful evaluate``.

accelerate launch recipes/evaluate.py MODEL --data DATA --tests correlation,permutation,adversarial
"""

import sys

from attn_faithful.cli import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
