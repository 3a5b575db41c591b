"""Sees NVIDIA GPUs through NVML: the only package that imports ``pynvml``, and that only in a child process.

A GPU that falls off the bus can crash or hang whoever asks the driver, so the asking is done by
``child`` (standard library and ``pynvml`` alone), and this side survives it: ``source.NvmlSource`` is the
door for the loop, ``probe.probe`` for ``fallow doctor``. The two sides speak ``wire`` over a pipe.

Child: ``child`` (the loop of requests), ``fleet`` (which devices there are), ``device`` (the reading of one)
and its parts ``measures``, ``rings``, ``gpm``, ``listing``, ``shares``; ``library`` (NVML's functions and
return codes). Parent: ``worker`` (the process), ``source``, ``gathering``, ``identity`` (pids), ``probe``,
and the pure ``reading``, ``process_list``, ``changes``, ``restarts`` and ``reasons``.
"""
