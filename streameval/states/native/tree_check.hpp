// Every invariant of a ScoreTree, checked from scratch.
#pragma once

#include "score_tree.hpp"

namespace streameval {

class TreeCheck {
  public:
    explicit TreeCheck(const ScoreTree& tree) : tree_(tree) {}

    const char* broken() {
        Part sum;
        const char* what = node(tree_.root_, tree_.height_, false, 0.0, false, 0.0, sum);
        if (what != nullptr) return what;
        if (!(sum.totals == tree_.totals_)) return "the totals are not those of the leaves";
        if (distinct_ != tree_.distinct_) return "distinct is not the number of scores";
        if (!(sum.wins == tree_.twice_wins_)) return "W2 is not that of the scores";
        if (tree_.keeps_delong_ && !(delong_ == tree_.delong_))
            return "DeLong's sums are not those of the scores";
        return nullptr;
    }

  private:
    const ScoreTree& tree_;
    std::size_t distinct_ = 0;
    Totals below_;
    DelongSums delong_;

    const char* leaf(const Leaf* leaf, bool has_low, double low, bool has_high, double high,
                     Part& sum) {
        if (leaf->size() > leaf->capacity() || leaf->capacity() > Leaf::kMaxSize)
            return "a leaf is over its capacity";
        if (leaf->shift() > tree_.widest_) return "a leaf is wider than the tree knows";
        for (int at = 0; at < leaf->size(); ++at) {
            const double key = leaf->keys()[at];
            if (!(key - key == 0.0)) return "a score is not finite";
            if (at > 0 && !(leaf->keys()[at - 1] < key)) return "the scores do not ascend";
            if (has_low && key < low) return "a score is below its leaf's fence";
            if (has_high && !(key < high)) return "a score is not below the next leaf's fence";
            const std::uint64_t n = leaf->weight(0, at), p = leaf->weight(1, at);
            if (n == 0 && p == 0) return "a score without weight was kept";
            Part slot;
            slot.totals.of[0] = n;
            slot.totals.of[1] = p;
            slot.wins = product(p, n);
            sum += slot;
            const std::uint64_t above = tree_.totals_.of[1] - below_.of[1] - p;
            delong_.add(p, 2 * below_.of[0] + n, n, 2 * above + p);
            below_ += slot.totals;
        }
        distinct_ += static_cast<std::size_t>(leaf->size());
        return nullptr;
    }

    const char* node(const void* at, int level, bool has_low, double low, bool has_high,
                     double high, Part& sum) {
        if (level == 0)
            return leaf(static_cast<const Leaf*>(at), has_low, low, has_high, high, sum);
        const Inner* inner = static_cast<const Inner*>(at);
        if (inner->size < 1 || inner->size > Inner::kMaxSize) return "an inner node's size is wrong";
        for (int i = 0; i < inner->size; ++i) {
            const bool first = i == 0, last = i + 1 == inner->size;
            if (i > 1 && !(inner->fences[i - 1] < inner->fences[i]))
                return "the fences do not ascend";
            Part below;
            const char* what =
                node(inner->children[i], level - 1, first ? has_low : true,
                     first ? low : inner->fences[i], last ? has_high : true,
                     last ? high : inner->fences[i + 1], below);
            if (what != nullptr) return what;
            if (!(below.totals == inner->totals[i])) return "a child's totals are stale";
            if (tree_.keeps_delong_ && !(inner->wins && below.wins == inner->wins[i]))
                return "a child's W2 is stale";
            sum += below;
        }
        return nullptr;
    }
};

inline const char* ScoreTree::broken() const { return TreeCheck(*this).broken(); }

}  // namespace streameval
