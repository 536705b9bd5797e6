"""Progress on standard error: what is done, how much, and how long the rest takes."""
