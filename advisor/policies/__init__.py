"""One rule a file: from a state of the cluster to advice, or to the reason why there is none. Pure."""
