"""Functions and classes of other libraries, computed by this package."""
