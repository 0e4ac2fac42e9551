"""Tests of the sets P."""
