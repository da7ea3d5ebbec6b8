"""A step that reads statistics and a schema, and stops the run when the data may not be trained on."""
