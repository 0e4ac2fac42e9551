"""Tests, laid out as src/condgrad is."""
