// Log loss, Brier terms and reliability bins of binary events of whole weight, in integers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "exact128.hpp"
#include "loss_terms.hpp"

namespace streameval {

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
        if (!BinaryTerms::has(score)) {
            outside += by;
            return;
        }
        const BinaryTerms terms(positive, score);
        log_loss += SignedWide(by) * loss_units<SignedWide>(terms.given);
        brier += SignedWide(by) * static_cast<SignedWide>(terms.brier);
        weight += by;
        Bin& bin = bins[bin_of(edges, score)];
        bin.weight += by;
        if (positive) bin.hits += by;
        bin.units += SignedWide(by) * static_cast<SignedWide>(terms.units);
    }
    void clear() {
        weight = outside = moved = 0;
        log_loss = brier = 0;
        std::fill(bins.begin(), bins.end(), Bin());
    }
};

}  // namespace streameval
