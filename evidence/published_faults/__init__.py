"""Known faults of the code that papers were published with, and what each of them changes.

Each fault is measured on the same models and texts both ways: as the published code has it, and as the paper prints it.
"""
