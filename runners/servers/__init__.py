"""The server under measurement: started, asked, stopped."""
