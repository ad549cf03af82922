// Cells of nearby scores, for an index of bounded size.
//
// The map of streameval/states/ranking/coarse_score.py, which explains it, bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bulk.hpp"

namespace streameval {

constexpr std::int64_t kHalfBits = std::int64_t{1022} << 52;
constexpr std::int64_t kOneBits = std::int64_t{1023} << 52;
constexpr std::uint64_t kMostBits = (std::uint64_t{2047} << 52) - 1;

inline std::int64_t bits_of(double score) {
    std::int64_t bits;
    std::memcpy(&bits, &score, sizeof bits);
    return bits;
}

inline double score_of(std::int64_t bits) {
    double score;
    std::memcpy(&score, &bits, sizeof score);
    return score;
}

// The smallest score of the cell; `score` is finite and not -0.0.
inline double coarse(double score, int level) {
    if (level == 0 || score == 0.0 || score == 0.5 || score == 1.0) return score;
    const std::int64_t kept = -(std::int64_t{1} << level);
    const std::int64_t least = 1;
    if (score < 0.0) {
        // 2^63 is no int64: the negative of the lowest offset is taken without a sign.
        const std::uint64_t negated = 0 - static_cast<std::uint64_t>(-bits_of(-score) & kept);
        return -score_of(static_cast<std::int64_t>(std::min(negated, kMostBits)));
    }
    if (score < 0.5) return score_of(std::max(bits_of(score) & kept, least));
    if (score < 1.0) {
        const std::int64_t offset = std::max((kHalfBits - bits_of(1.0 - score)) & kept, least);
        const double ulps = 9007199254740992.0;  // 1 / the spacing of doubles from 1/2 to 1
        return 1.0 - std::floor(score_of(kHalfBits - offset) * ulps) / ulps;
    }
    return score_of(kOneBits + std::max((bits_of(score) - kOneBits) & kept, least));
}

inline void coarsen_column(double* scores, std::ptrdiff_t count, int level) {
    if (level == 0) return;
    for (std::ptrdiff_t n = 0; n < count; ++n) scores[n] = coarse(scores[n], level);
}

constexpr int kMostLevel = 55;  // of so few cells that every limit is kept

// Whether ascending scores have no more than `limit` cells.
inline bool cells_fit(const std::vector<double>& scores, int level, std::size_t limit) {
    std::size_t cells = 0;
    double last = 0.0;
    for (const double score : scores) {
        const double cell = coarse(score, level);
        if (cells == 0 || cell != last) {
            if (++cells > limit) return false;
            last = cell;
        }
    }
    return true;
}

// The lowest level from `level` on at which ascending scores have no more than `limit`
// cells. Their number falls with the level; the next levels are tried first.
inline int fitting_level(const std::vector<double>& scores, int level, std::size_t limit) {
    int low = level, high = level;
    for (int step = 1; !cells_fit(scores, high, limit); step *= 2) {
        low = high + 1;
        high = std::min(high + step, kMostLevel);
    }
    while (low < high) {
        const int middle = (low + high) / 2;
        if (cells_fit(scores, middle, limit))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

// Raises the level to `least` at least, and on until no more than `limit` cells are
// left; returns it. The tree is built anew from the cells, its W2 with their ties.
inline int fit(ScoreTree& tree, int level, int least, std::size_t limit) {
    if (level >= least && tree.distinct() <= limit) return level;
    if (tree.distinct() == 0) return least;
    std::vector<double> scores(tree.distinct());
    std::vector<std::int64_t> positives(tree.distinct()), negatives(tree.distinct());
    tree.read_groups(scores.data(), positives.data(), negatives.data());
    level = fitting_level(scores, std::max(level, least), limit);
    std::size_t cells = 0;
    for (std::size_t n = 0; n < scores.size(); ++n) {
        const double cell = coarse(scores[n], level);
        if (cells > 0 && scores[cells - 1] == cell) {
            positives[cells - 1] += positives[n];
            negatives[cells - 1] += negatives[n];
        } else {
            scores[cells] = cell;
            positives[cells] = positives[n];
            negatives[cells] = negatives[n];
            ++cells;
        }
    }
    ScoreTree coarser;
    build_from_groups(coarser, scores.data(), positives.data(), negatives.data(),
                      static_cast<std::ptrdiff_t>(cells));
    tree.swap(coarser);
    return level;
}

}  // namespace streameval
