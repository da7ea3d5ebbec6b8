"""The Pusher: takes a blessed model to where it is served, and never leaves a half of one there.

    component.py     the TFX contract; executor.py runs it
    config.py        PushTarget: where to, and how careful
    deployer.py      the state machine: reserve, stage, verify, publish, available, probe, canary, promote, retire
    base_folder.py   the folder that the model server watches, and the journal and lock beside the versions
    verification.py  loads the staged model in a process of its own (verify_process.py) and compares predictions

Importing this package imports neither TensorFlow nor TFX: `sluice push` and the verifying process stay quick.
"""
