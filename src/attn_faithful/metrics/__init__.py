"""Numbers from lists, as the `evaluate` modules take them: one file a module."""
