"""Worker processes for work that is too large for the event loop.

`pool` runs in the server: it starts processes when the first job comes, shares them out fairly
and stops them when they are idle. `process` is the program that they run. Server and worker
share nothing but the bytes of a job and of its result.
"""
