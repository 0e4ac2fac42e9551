"""Random problems against judges who share no code with the library: `python -m tests.fuzz`, or `make fuzz`."""
