"""Patches and field ownership: JSON patch, merge patch, strategic merge, server-side apply.

Pure code over plain dicts; imports nothing above `machinery`.
`docs/design/api/apply.md` explains how the parts fit together.
"""
