"""How the installation itself fares: is it ready, what do its processes do, and what do they write into their logs."""
