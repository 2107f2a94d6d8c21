"""Audit: who did what, when and where, as Kubernetes writes it down.

`policy` says what is recorded of a request, `lines` how an event is written,
`backends` and `modes` where the events go and whether requests wait for it, `trail`
holds all of that together. What a request is, only the server knows: its filter
(`server/filters/audit`) makes the events.
"""
