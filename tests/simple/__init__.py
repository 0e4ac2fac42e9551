"""Tests of the simple parts g."""
