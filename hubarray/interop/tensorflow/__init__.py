"""TensorFlow datasets."""
