"""The child of a service of before an upgrade, which starts it by this name until it is started anew."""

from collector.sources.nvml.child import main

if __name__ == "__main__":
    main()
