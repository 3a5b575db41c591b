"""The register of submitted jobs: what each asked for, where it stands, what it was told."""
