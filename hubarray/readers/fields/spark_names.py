"""Names of Spark's types, as schemas keep them and as Petastorm's codecs are given them. Pure."""

from __future__ import annotations

import re
from typing import Any

from hubarray.errors import ConfigError

_DECIMAL = re.compile(r"DecimalType\(\s*(\d{1,3})\s*,\s*(-?\d{1,3})\s*\)")
_MAX_DIGITS = 38
_DEFAULT_DECIMAL = (38, 18)


def spark_name(spark_type: Any) -> str | None:
    """The name of a type of Spark, or of its class; of decimals with their precision and scale.

    Parameters
    ----------
    spark_type : pyspark.sql.types.DataType, str, or None

    Raises
    ------
    ConfigError
        Decimals of more than 38 digits, or of more behind the point than in all.

    Examples
    --------
    >>> spark_name("DecimalType(38, 2)")
    'DecimalType(38,2)'
    """
    if spark_type is None:
        return None
    if not isinstance(spark_type, str):
        named = spark_type.__name__ if isinstance(spark_type, type) else type(spark_type).__name__
        digits = getattr(spark_type, "precision", None), getattr(spark_type, "scale", None)
        spark_type = f"DecimalType({digits[0]},{digits[1]})" if named == "DecimalType" and None not in digits else named
    match = _DECIMAL.fullmatch(spark_type)
    if match is None:
        return str(spark_type)
    precision, scale = int(match[1]), int(match[2])
    if not (1 <= precision <= _MAX_DIGITS and 0 <= scale <= precision):
        raise ConfigError(
            f"{spark_type}: decimals have 1 to {_MAX_DIGITS} digits, and no more behind the point than in all"
        )
    return f"DecimalType({precision},{scale})"


def decimal_digits(name: str | None) -> tuple[int, int]:
    """The precision and the scale of decimals: what a type's name says, else (38, 18).

    Examples
    --------
    >>> decimal_digits("DecimalType(10,2)")
    (10, 2)
    """
    match = _DECIMAL.fullmatch(name or "")
    return _DEFAULT_DECIMAL if match is None else (int(match[1]), int(match[2]))
