"""Functions with the signatures of other libraries, computed by this package."""
