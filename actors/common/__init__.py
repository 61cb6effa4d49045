"""Shared by the rooms above."""
