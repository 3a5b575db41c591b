"""What goes over the API, as types: those who answer and those who ask share them."""
