// portable_log of sums/loss_sums.py: the same IEEE operations in the same order.
//
// To be compiled without contraction: a product and a sum that are rounded once
// would give other bits than Python's.
#pragma once

#include <cmath>

namespace streameval {

inline double portable_log(double x) {
    constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    constexpr double l1 = 6.666666666666735130e-01, l2 = 3.999999999940941908e-01,
                     l3 = 2.857142874366239149e-01, l4 = 2.222219843214978396e-01,
                     l5 = 1.818357216161805012e-01, l6 = 1.531383769920937332e-01,
                     l7 = 1.479819860511658591e-01;
    int exponent;
    double mantissa = std::frexp(x, &exponent);
    if (mantissa < 0.7071067811865476) {
        mantissa += mantissa;
        exponent -= 1;
    }
    const double k = exponent, f = mantissa - 1.0, s = f / (2.0 + f), z = s * s, w = z * z;
    const double remainder = z * (l1 + w * (l3 + w * (l5 + w * l7))) + w * (l2 + w * (l4 + w * l6));
    const double half_square = 0.5 * f * f;
    return s * (half_square + remainder) + k * ln2_low - half_square + f + k * ln2_high;
}

}  // namespace streameval
