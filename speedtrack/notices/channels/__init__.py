"""Ways other than mail to report an alert: webhooks, chats and forges. Each is optional."""
