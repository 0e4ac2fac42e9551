"""The paper's experiments: pieces of work, curves, chapters of a page. `condgrad paper` runs them."""
