// What one event adds to sums of losses and reliability bins, in integers.
//
// The terms of states/sums/loss_terms.py, operation by operation: each is rounded once, so the
// units are the same. Built without contraction (-ffp-contract=off), which would round less.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace streameval {

constexpr double kUnits = 0x1p60;

inline double portable_log(double x) {
    int k;
    double mantissa = std::frexp(x, &k);
    if (mantissa < 0.7071067811865476) {
        mantissa += mantissa;
        --k;
    }
    const double f = mantissa - 1.0;
    const double s = f / (2.0 + f);
    const double z = s * s;
    const double w = z * z;
    const double odd = 6.666666666666735130e-01 +
                       w * (2.857142874366239149e-01 +
                            w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01));
    const double even = 3.999999999940941908e-01 +
                        w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01);
    const double remainder = z * odd + w * even;
    const double half_square = 0.5 * f * f;
    return s * (half_square + remainder) + k * 1.90821492927058770002e-10 - half_square + f +
           k * 6.93147180369123816490e-01;
}

// A number from 0 to 1, or the square of one, in units.
inline std::int64_t in_units(double value) { return static_cast<std::int64_t>(value * kUnits); }

// The log loss of the probability given to what happened: up to 66 bits.
template <typename Integer>
Integer loss_units(double given) {
    constexpr double lowest = 0x1p-52;
    given = std::min(std::max(given, lowest), 1.0 - lowest);
    return static_cast<Integer>(-portable_log(given) * kUnits);
}

inline std::size_t bin_of(const std::vector<double>& edges, double probability) {
    return static_cast<std::size_t>(
        std::lower_bound(edges.begin(), edges.end(), probability) - edges.begin());
}

// Of a binary event whose score is a probability.
struct BinaryTerms {
    double given;
    std::int64_t brier, units;

    BinaryTerms(bool positive, double score)
        : given(positive ? score : 1.0 - score), units(in_units(score)) {
        const double missed = positive ? 1.0 - score : score;
        brier = in_units(missed * missed);
    }
    static bool has(double score) { return score >= 0.0 && score <= 1.0; }
};

}  // namespace streameval
