"""The syncer: specs of assigned objects down to a cluster, their status back up.

One engine for all modes. A push syncer is a task of the control plane, a pull syncer a program in
the cluster, and with the mode None the same program is started by hand; each is given two servers.
"""
