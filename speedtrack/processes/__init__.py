"""The processes of an installation: embedded servers, supervisor, dispatcher, demonstration."""
