"""What a Kubernetes API server says of GPUs: pods, claims of devices, and the queues of Kueue and KAI."""
