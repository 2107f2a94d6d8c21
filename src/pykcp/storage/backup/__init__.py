"""Backups of a store: segments of its log in a directory or a file, and stores made from them.

A backup consists of *segments*. The first one of a store holds everything (it is *full*), each
later one what was written since the one before it. A store is rebuilt from the last full segment
and those after it, up to the point that is wanted.
"""
