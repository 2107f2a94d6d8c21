"""The configuration stage: objects in, certificates, kubeconfigs and workloads out.

It knows nothing of how workloads are run, see `platform` and `compiled`.
"""
