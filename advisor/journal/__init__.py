"""What was decided and done, kept: intents and outcomes, plans that wait, the kill switch."""
