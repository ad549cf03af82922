"""The natural logarithm with the same bits on every machine and in every path.

``math.log`` and ``np.log`` differ from each other in the last bit, and each
differs between platforms, so a log loss summed from either could not be merged
or resumed bit for bit elsewhere. Here one sequence of IEEE additions,
multiplications and divisions is written twice, for one float and for arrays;
each single operation is correctly rounded everywhere, so the two agree.

The algorithm is that of FreeBSD's ``e_log.c`` (Sun Microsystems, 1993): write
x = 2**k · (1 + f) with √½ ≤ 1 + f < √2, and sum a polynomial in
s = f / (2 + f) fitted to the remainder of log(1 + f). Its error is below one
unit in the last place.
"""

from __future__ import annotations

import math

import numpy as np

from streameval.events.values import FloatArray

_SQRT_HALF = 0.7071067811865476
_LN2_HIGH = 6.93147180369123816490e-01  # its last 32 bits are 0: k · _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_L1 = 6.666666666666735130e-01
_L2 = 3.999999999940941908e-01
_L3 = 2.857142874366239149e-01
_L4 = 2.222219843214978396e-01
_L5 = 1.818357216161805012e-01
_L6 = 1.531383769920937332e-01
_L7 = 1.479819860511658591e-01


def portable_log(x: float) -> float:
    """Natural logarithm of a positive finite float.

    Args:
        x: Positive and finite, subnormal included; not checked.

    Returns:
        ln x within one unit in the last place.

    Cost:
        About 0.4 µs.

    >>> portable_log(1.0), portable_log(0.5)
    (0.0, -0.6931471805599453)
    """
    mantissa, k = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa += mantissa
        k -= 1
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    remainder = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7))) + w * (_L2 + w * (_L4 + w * _L6))
    half_square = 0.5 * f * f
    return s * (half_square + remainder) + k * _LN2_LOW - half_square + f + k * _LN2_HIGH


def portable_log_many(x: FloatArray) -> FloatArray:
    """:func:`portable_log` of each element, bit for bit.

    Args:
        x: Positive finite float64, any shape; not checked.

    Cost:
        About 15 ns an element while the array fits the processor's cache.

    >>> portable_log_many(np.array([1.0, 0.5])).tolist()
    [0.0, -0.6931471805599453]
    """
    mantissa, exponent = np.frexp(x)
    low = mantissa < _SQRT_HALF
    mantissa *= 1.0 + low
    k = (exponent - low).astype(np.float64)
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    # Each numpy call rounds its result, so nothing here can be fused into one
    # operation with one rounding, as a compiler might do with C.
    remainder = z * (_L1 + w * (_L3 + w * (_L5 + w * _L7))) + w * (_L2 + w * (_L4 + w * _L6))
    half_square = 0.5 * f * f
    result: FloatArray = (
        s * (half_square + remainder) + k * _LN2_LOW - half_square + f + k * _LN2_HIGH
    )
    return result
