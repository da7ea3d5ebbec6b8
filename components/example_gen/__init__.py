"""Tables and pictures to TFRecords of tf.Example: a drop-in ExampleGen that is fast and never silently wrong."""
