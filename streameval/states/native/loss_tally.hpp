// Log loss, Brier terms and reliability bins of binary events of whole weight, in integers.
//
// The terms of states/probability.py, operation by operation: each is rounded once, so the
// units are the same. Built without contraction (-ffp-contract=off), which would round less.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact128.hpp"

namespace streameval {

constexpr double kUnits = 0x1p60;

// See states/sums/loss_sums.py.
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

inline SignedWide loss_units(double given) {
    constexpr double lowest = 0x1p-52;
    given = std::min(std::max(given, lowest), 1.0 - lowest);
    return static_cast<SignedWide>(-portable_log(given) * kUnits);
}

struct Bin {
    std::int64_t weight = 0, hits = 0;
    SignedWide units = 0;
};

// What was counted since the last time that it was handed over; a removal counts negatively.
class LossTally {
  public:
    // Below this weight no sum can pass its range: a term has at most 66 bits.
    static constexpr std::int64_t most_moved = std::int64_t(1) << 59;

    std::int64_t weight = 0, outside = 0;
    std::int64_t moved = 0;  // the weight that was added, and that removed
    SignedWide log_loss = 0, brier = 0;
    std::vector<double> edges;
    std::vector<Bin> bins;

    void count(bool positive, double score, std::int64_t by) {
        moved += by < 0 ? -by : by;
        if (!(score >= 0.0 && score <= 1.0)) {
            outside += by;
            return;
        }
        const double rest = 1.0 - score;
        const double given = positive ? score : rest, missed = positive ? rest : score;
        log_loss += SignedWide(by) * loss_units(given);
        brier += SignedWide(by) * static_cast<SignedWide>(missed * missed * kUnits);
        weight += by;
        Bin& bin = bins[std::lower_bound(edges.begin(), edges.end(), score) - edges.begin()];
        bin.weight += by;
        if (positive) bin.hits += by;
        bin.units += SignedWide(by) * static_cast<SignedWide>(score * kUnits);
    }
    void clear() {
        weight = outside = moved = 0;
        log_loss = brier = 0;
        std::fill(bins.begin(), bins.end(), Bin());
    }
};

}  // namespace streameval
