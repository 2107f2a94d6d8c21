"""The kubectl plugins `kubectl-ws`, `kubectl-kcp` and `kubectl-create-workspace`.

They are started for every line that a user types, so they import little and late: the standard
library and YAML, little of the server, no data classes on the way to a prompt. `shell/` is the command line, `access/` is kubeconfig and
HTTP, the other folders are the commands.
"""
