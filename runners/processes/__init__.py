"""Child processes: started on their cores, waited for, ended, found again after a crash."""
