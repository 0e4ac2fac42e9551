"""How far to go: step rules, F along a few directions, the corrective memory, one backtracking."""
