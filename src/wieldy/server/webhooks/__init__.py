"""Signed webhooks: what happens, sent to addresses outside until it arrives."""
