"""From a tool's JSON Schema to what each provider accepts, and back."""
