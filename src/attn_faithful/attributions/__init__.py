"""One file a kind of explanation."""
