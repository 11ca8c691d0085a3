"""Projects: what is read of their repositories, noted about them, and changed of them and of machines."""
