"""What pages show of alerts, of what was found on the way to them, and of what people note."""
