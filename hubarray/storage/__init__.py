"""Six verbs over whatever holds bytes: a folder, S3, GCS, and what fsspec speaks."""
