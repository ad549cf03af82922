// Log loss, Brier terms and reliability bins of binary events of weight 1, in integers.
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
    std::int64_t weight = 0, outside = 0;
    SignedWide log_loss = 0, brier = 0;
    std::vector<double> edges;
    std::vector<Bin> bins;

    void count(bool positive, double score, int by) {
        if (!BinaryTerms::has(score)) {
            outside += by;
            return;
        }
        const BinaryTerms terms(positive, score);
        log_loss += by * loss_units<SignedWide>(terms.given);
        brier += by * static_cast<SignedWide>(terms.brier);
        weight += by;
        Bin& bin = bins[bin_of(edges, score)];
        bin.weight += by;
        if (positive) bin.hits += by;
        bin.units += by * static_cast<SignedWide>(terms.units);
    }
    void clear() {
        weight = outside = 0;
        log_loss = brier = 0;
        std::fill(bins.begin(), bins.end(), Bin());
    }
};

}  // namespace streameval
