"""A controller of before an upgrade starts its workers' parent by this name, when one has died."""

from fallow.workers.fork_server import main

if __name__ == "__main__":
    main()
