"""The text generation workload: documents in, a small GPT-style decoder out, served with a key-value cache."""
