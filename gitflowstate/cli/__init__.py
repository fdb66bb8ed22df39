"""The command line: the only layer that reads argv, the environment, files and the clock."""
