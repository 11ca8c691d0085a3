"""The measured server: started on its cores, waited for, asked for its counters, stopped."""
