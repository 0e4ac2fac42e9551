"""One module a benchmark; each runs by itself, and `python -m experiments bench` lists them."""
