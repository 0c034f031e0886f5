"""Training programs, to run as they are or to copy."""
