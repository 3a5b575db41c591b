"""Header names and content types that the API and its clients share."""

JSON = "application/json"
TOTAL = "Fallow-Total"
"""The header that says how long a list is that may be cut."""
ROLE_HEADER = "Fallow-Role"
"""The header by which somebody asks to be taken for less than they are: for a viewer."""
ARROW = "application/vnd.apache.arrow.stream"
