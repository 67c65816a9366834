"""Frozen records and pure rules. Imports nothing of ours."""
