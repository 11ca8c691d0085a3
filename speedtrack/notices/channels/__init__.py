"""Ways other than mail to tell of an alert: webhooks, chats and forges. Each is optional."""
