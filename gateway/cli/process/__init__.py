"""The process of a command: its arguments, its signals, and its role as process 1 of a container."""
