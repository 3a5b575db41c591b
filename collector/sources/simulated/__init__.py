"""A cluster that is not there: seeded people, jobs and faults, with the truth about each of them.

Enter through ``collector.sources.simulated.cluster.SimulatedCluster``; what a label means, and which finding
it should lead to, stands in ``collector.sources.simulated.labels``. Kept out of this file so that importing a
name of the truth does not load numpy.
"""
