"""A frontend's library: the content-addressed files that models are made of, as they enter the cluster.

It fetches and keeps through `ports.files`, in a folder or in shared storage, and writes what it has into the registry.
It may use the parts of `corral.transfer` that know no network: chunks, files and threads.
"""
