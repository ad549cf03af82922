// What multi-class events of weight 1 add to the sums over their probabilities.
//
// Sums of integers, as states/class_probability.py has them, of the events since they
// were last taken. The caller takes them before so many that 128 bits were too few.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact128.hpp"
#include "loss_tally.hpp"

namespace streameval {

// A share of pairs in units of 2^-64, rounded down.
inline Wide share_of(std::uint64_t wins, std::uint64_t pairs) {
    return (static_cast<Wide>(wins) << 64) / pairs;
}

class ClassTerms {
public:
    std::vector<double> edges;         // inner edges of the bins, ascending
    std::vector<std::uint64_t> ranks;  // events by the rank of the true class, from -1 on
    std::vector<Bin> bins;
    std::vector<std::size_t> ranks_used, bins_used;  // those that are not empty
    Wide log_loss = 0, brier = 0;
    std::int64_t events = 0;

    // Bins between these edges, and one more.
    void start(std::size_t count) {
        edges.reserve(count);
        bins.resize(count + 1);
        bins_used.reserve(count + 1);
    }

    // Makes room for a rank, so that count() cannot fail.
    void reserve(std::ptrdiff_t rank) {
        const std::size_t size = static_cast<std::size_t>(rank + 2);
        ranks_used.reserve(size);
        if (size > ranks.size()) ranks.resize(size);
    }

    // One event, of what was summed over its cells.
    void count(double given, Wide squares, std::ptrdiff_t rank, double confidence, bool hit) {
        log_loss += loss_units<Wide>(given);
        brier += squares;
        const auto place = static_cast<std::size_t>(rank + 1);
        if (ranks[place]++ == 0) ranks_used.push_back(place);
        const std::size_t at = bin_of(edges, confidence);
        Bin& bin = bins[at];
        if (bin.weight++ == 0) bins_used.push_back(at);
        if (hit) ++bin.hits;
        bin.units += in_units(confidence);
        ++events;
    }

    // One event from its row of a matrix. `truth` and `predicted` are columns, -1 where there
    // is none; among equal probabilities a later place is ranked first. The ranks of all
    // columns have been reserved.
    void count_row(const double* row, std::ptrdiff_t columns, const std::int64_t* places,
                   std::ptrdiff_t truth, std::ptrdiff_t predicted, bool hit) {
        const double given = truth < 0 ? 0.0 : row[truth];
        const double missed = 1.0 - given;
        // Of columns + 1 terms of up to 2^60.
        Wide squares = static_cast<Wide>(in_units(missed * missed));
        std::ptrdiff_t before = 0;
        for (std::ptrdiff_t start = 0; start < columns; start += 4) {
            // Four terms are below 2^63.
            std::int64_t sum = 0;
            const std::ptrdiff_t end = std::min(start + 4, columns);
            for (std::ptrdiff_t at = start; at < end; ++at) {
                sum += in_units(row[at] * row[at]);
                before += row[at] > given ? 1 : 0;
            }
            squares += static_cast<Wide>(sum);
        }
        if (truth < 0) {
            before = -1;
        } else {
            squares -= static_cast<Wide>(in_units(given * given));
            for (std::ptrdiff_t at = 0; at < columns; ++at)
                before += row[at] == given && places[at] > places[truth] ? 1 : 0;
        }
        count(given, squares, before, predicted < 0 ? 0.0 : row[predicted], hit);
    }

    void clear() {
        for (const std::size_t place : ranks_used) ranks[place] = 0;
        for (const std::size_t at : bins_used) bins[at] = Bin();
        ranks_used.clear();
        bins_used.clear();
        log_loss = brier = 0;
        events = 0;
    }
};

}  // namespace streameval
