"""Tests of `hookwork grade`."""
