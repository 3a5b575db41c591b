"""The two small processes with root's powers, and how the service asks them.

    fallow-probe   reads /proc of all users, and changes nothing
    fallow-hand    pauses and resumes foreign processes by CUDA's checkpoint, and writes on terminals

The service itself runs as an own user without capabilities (docs/security.md). Each of the two answers a
closed list of requests on a Unix socket, to the service's user and root alone; values travel as JSON, and
nothing is unpickled.
"""
