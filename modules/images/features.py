"""Names of the columns, before and after preprocessing."""

# Raw: what components/example_gen makes of a picture.
IMAGE_KEY = "image"
LABEL_KEY = "label"

# Transformed. The picture is still encoded: it is decoded, and augmented, where the model's input is made.
ENCODED_KEY = "encoded_image"
CLASS_KEY = "class_id"

# What the model itself reads: uint8 pixels.
PIXELS_KEY = "pixels"

NUM_OOV_BUCKETS = 1
