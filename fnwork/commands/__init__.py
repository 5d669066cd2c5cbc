"""What each command does, one module a family; every function takes the parsed arguments and returns the exit code."""
