"""Fields of rows, and what may be asked of them: schemas, codecs, predicates, transforms and n-grams."""
