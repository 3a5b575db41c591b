"""From a pid to the person, the framework and the job behind it, read from the outside through /proc.

``table.ProcessTable`` is the door; ``files`` is the only other module here that touches the file system, and
``accounts`` asks who has an account. The rest decides on text. Nothing here asks a driver, and nothing here
keeps a whole environment.
"""
