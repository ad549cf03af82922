// Cells of nearby scores, for an index of bounded size.
//
// The map of streameval/states/ranking/coarse_score.py, which explains it, bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tree_builder.hpp"

namespace streameval {

constexpr std::int64_t kHalfBits = std::int64_t{1022} << 52;
constexpr std::int64_t kOneBits = std::int64_t{1023} << 52;
constexpr std::uint64_t kMostBits = (std::uint64_t{2047} << 52) - 1;

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

constexpr int kMostLevel = 55;  // of so few cells that every limit is kept

// The lowest level from `level` on at which ascending scores have no more than `limit`
// cells. Their number falls with the level; the next levels are tried first.
inline int fitting_level(const std::vector<double>& scores, int level, std::size_t limit) {
    const auto fits = [&](int tried) {
        std::size_t cells = 0;
        double last = 0.0;
        for (std::size_t n = 0; n < scores.size() && cells <= limit; ++n) {
            const double cell = coarse(scores[n], tried);
            cells += cells == 0 || cell != last;
            last = cell;
        }
        return cells <= limit;
    };
    int low = level, high = level;
    for (int step = 1; !fits(high); step *= 2) {
        low = high + 1;
        high = std::min(high + step, kMostLevel);
    }
    while (low < high) {
        const int middle = (low + high) / 2;
        if (fits(middle))
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
    const std::vector<const Leaf*> leaves = tree.leaves();
    std::vector<double> scores;
    for (const Leaf* leaf : leaves)
        scores.insert(scores.end(), leaf->keys(), leaf->keys() + leaf->size());
    level = fitting_level(scores, std::max(level, least), limit);
    TreeBuilder coarser;
    for (const Leaf* leaf : leaves)
        leaf->read_pairs([&](int at, std::uint64_t negatives, std::uint64_t positives) {
            coarser.add(coarse(leaf->keys()[at], level), negatives, positives);
        });
    coarser.finish(tree);
    return level;
}

}  // namespace streameval
