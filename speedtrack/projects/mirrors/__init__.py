"""The mirrors of repositories: the addresses and credentials that lead to them, and the git that fetches and reads."""
