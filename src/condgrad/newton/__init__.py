"""Newton's methods, an engine each."""
