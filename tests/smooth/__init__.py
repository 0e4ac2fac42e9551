"""Tests of the smooth parts f."""
