"""Messages to people: an outbox that loses nothing, and a process that sends one message."""
