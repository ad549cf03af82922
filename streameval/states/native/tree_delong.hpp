// How a ScoreTree keeps the sums of DeLong's variance.
//
// With r = 2 N_below + n and t = 2 P_above + p at a score of p positives and n
// negatives, Q10 = sum of p r^2 and Q01 = sum of n t^2. A positive of weight w
// adds w r^2 to the first, and raises t of every negative below it by 2 w:
//
//     4 w (sum of n t below) + 4 w^2 N_below, and n w (2 t + w) at its own score.
//
// The sum of n t below is the W2 of the scores below and 2 N_below P_from_here.
// A negative is the mirror image. So an inner node needs only the W2 of each
// child, and the sums are two integers of the whole tree. Integers, so a removal
// takes out what the insertion added.
#pragma once

#include <limits>

#include "score_tree.hpp"

// Inlined it would cost 3 % of an insertion into a tree whose sums are not kept: registers.
#if defined(__GNUC__)
#define STREAMEVAL_APART __attribute__((noinline))
#else
#define STREAMEVAL_APART
#endif

namespace streameval {

template <>
inline Part ScoreTree::keep_below(void* node, int level, Totals& below, DelongSums& sums) {
    if (level == 0) {
        const Leaf* leaf = static_cast<const Leaf*>(node);
        leaf->read_pairs([&](int, std::uint64_t n, std::uint64_t p) {
            const std::uint64_t above = totals_.of[1] - below.of[1] - p;
            sums.add(p, 2 * below.of[0] + n, n, 2 * above + p);
            below.of[0] += n;
            below.of[1] += p;
        });
        return leaf->part(leaf->size());
    }
    Inner* inner = static_cast<Inner*>(node);
    if (!inner->wins) inner->keep_wins(pool_);
    for (int i = 0; i < inner->size; ++i)
        inner->wins[i] = keep_below(inner->children[i], level - 1, below, sums).wins;
    return inner->part(inner->size);
}

// Allocates before it changes what is read, so that it may fail half way.
template <>
inline void ScoreTree::keep_delong() {
    Totals below;
    DelongSums sums;
    keep_below(root_, height_, below, sums);
    delong_ = sums;
    keeps_delong_ = true;
}

// (P Q10 - W2^2) (N - 1) + (N Q01 - W2^2) (P - 1), by (2 P N)^2 (P - 1) (N - 1).
template <>
inline double ScoreTree::auc_variance() const {
    const double pairs = static_cast<double>(totals_.of[0]) * static_cast<double>(totals_.of[1]);
    if (keeps_delong_ && totals_.of[0] > 1 && totals_.of[1] > 1 && pairs * pairs * pairs < 0x1p124) {
        const Wide n = totals_.of[0], p = totals_.of[1], square = twice_u_ * twice_u_;
        const Wide of_positives = p * delong_.q10.low - square;
        const Wide of_negatives = n * delong_.q01.low - square;
        return quotient(of_positives * (n - 1) + of_negatives * (p - 1),
                        4 * n * n * p * p * (n - 1) * (p - 1));
    }
    return std::numeric_limits<double>::quiet_NaN();
}

// Adds or takes out the share of an event. The tree's totals and W2 are without
// it, and so is `own`, the weight of its class at its score; the leaf and the
// totals of its class along the path may be either way.
template <>
STREAMEVAL_APART inline void ScoreTree::change_delong(Path& path, const Leaf* leaf, int at,
                                                      bool found, std::uint64_t own, int side,
                                                      std::uint64_t weight, bool added) {
    Part below;
    Totals outside[kMaxHeight + 1];  // below the child on the path
    for (int level = height_; level > 0; --level) {
        below += path[level].node->part(path[level].at);
        outside[level] = below.totals;
    }
    below += leaf->part(at);
    const std::uint64_t other = found ? leaf->weight(1 - side, at) : 0;
    const std::uint64_t n = side == 1 ? other : own, p = side == 1 ? own : other;
    const std::uint64_t n_below = below.totals.of[0], p_from = totals_.of[1] - below.totals.of[1];
    const std::uint64_t r = 2 * n_below + n, p_above = p_from - p, t = 2 * p_above + p;

    // The event's own square; what the others of its class are to gain by it, of which `ranks`
    // are the ranks of the other class over the scores that it shifts.
    const U256 mine = product(side == 1 ? product(r, r) : product(t, t), weight);
    const Wide ranks = side == 1 ? below.wins + product(2 * n_below, p_from)
                                 : twice_u_ - below.wins - product(p, r);
    U256 theirs = product(ranks, 4 * weight);
    theirs += product(product(weight, 4 * weight), side == 1 ? n_below : p_above);
    theirs += product(product(weight, 2 * (side == 1 ? t : r) + weight), other);

    const auto change = [added](auto& sum, const auto& by) { added ? sum += by : sum -= by; };
    change(side == 1 ? delong_.q10 : delong_.q01, mine);
    change(side == 1 ? delong_.q01 : delong_.q10, theirs);
    for (int level = 1; level <= height_; ++level) {
        Inner* inner = path[level].node;
        const int child = path[level].at;
        const std::uint64_t under = below.totals.of[1 - side] - outside[level].of[1 - side];
        const std::uint64_t beaten = side == 1 ? under : inner->totals[child].of[1] - under - p;
        change(inner->wins[child], product(weight, 2 * beaten + other));
    }
}

template <>
inline void WideTree::change_delong(Path&, const Leaf*, int, bool, Wide, int, Wide, bool) {}

}  // namespace streameval
