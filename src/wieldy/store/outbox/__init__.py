"""What webhooks are told: events as they happen, and the messages that are made of them."""
