"""Old against new: `python -m experiments gates` times two commits in turns.

`rows` and `random_rows` say what is timed, `jobs` how a side runs it, `sides` makes the two
sides and `worker` is what runs there, `rules` are the limits, and `run` measures.
"""
