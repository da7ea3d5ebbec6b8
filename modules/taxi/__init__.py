"""The Chicago taxi workload: will the passenger tip more than a fifth of the fare?"""
