"""Which columns of a taxi trip the model uses, and how."""

LABEL_KEY = "big_tip"
# The label: did the tip exceed this share of the fare?
BIG_TIP_SHARE = 0.2

# Skewed, never negative: log, then z-score.
LOG_NUMBERS = ("fare", "trip_miles", "trip_seconds")
# Roughly symmetric: z-score.
NUMBERS = ("pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude")
# Small integers with a known range: used as they are. Name -> number of values, the last of which means missing.
SMALL_INTEGERS = {"trip_start_hour": 25, "trip_start_day": 9, "trip_start_month": 14}
# Open sets of integers or words: a vocabulary with one bucket for the unseen. Name -> most entries kept.
VOCABULARIES = {"payment_type": 20, "company": 200, "pickup_community_area": 100, "dropoff_community_area": 100}

NUM_OOV_BUCKETS = 1


def transformed(name: str) -> str:
    """The name of a column after preprocessing, so that raw and transformed never meet under one name."""
    return f"{name}_xf"
