"""How an agent lets its model use tools."""
