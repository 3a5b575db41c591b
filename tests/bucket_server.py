"""A bucket in S3's protocol, on loopback: moto's server, in a process of its own so that it can be killed."""
