"""The Prepare step: a workload's function turns ingested rows into other records to train on."""
