"""Linear programs over the transport polytope, an engine a file."""
