// Every invariant of a ScoreTree, checked from scratch.
#pragma once

#include "score_tree.hpp"

namespace streameval {

class TreeCheck {
  public:
    explicit TreeCheck(const ScoreTree& tree) : tree_(tree) {}

    const char* broken() {
        Totals totals;
        const char* what = node(tree_.root_, tree_.height_, false, 0.0, false, 0.0, totals);
        if (what != nullptr) return what;
        if (!(totals == tree_.totals_)) return "the totals are not those of the leaves";
        if (distinct_ != tree_.distinct_) return "distinct is not the number of scores";
        if (!(wins_ == tree_.twice_wins_)) return "W2 is not that of the scores";
        return nullptr;
    }

  private:
    const ScoreTree& tree_;
    std::size_t distinct_ = 0;
    std::uint64_t negatives_ = 0;
    U128 wins_;

    const char* leaf(const Leaf* leaf, bool has_low, double low, bool has_high, double high,
                     Totals& totals) {
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
            wins_ += product(p, 2 * negatives_ + n);
            negatives_ += n;
            totals.of[0] += n;
            totals.of[1] += p;
        }
        distinct_ += static_cast<std::size_t>(leaf->size());
        return nullptr;
    }

    const char* node(const void* at, int level, bool has_low, double low, bool has_high,
                     double high, Totals& totals) {
        if (level == 0)
            return leaf(static_cast<const Leaf*>(at), has_low, low, has_high, high, totals);
        const Inner* inner = static_cast<const Inner*>(at);
        if (inner->size < 1 || inner->size > Inner::kMaxSize) return "an inner node's size is wrong";
        for (int i = 0; i < inner->size; ++i) {
            const bool first = i == 0, last = i + 1 == inner->size;
            if (i > 1 && !(inner->fences[i - 1] < inner->fences[i]))
                return "the fences do not ascend";
            Totals below;
            const char* what =
                node(inner->children[i], level - 1, first ? has_low : true,
                     first ? low : inner->fences[i], last ? has_high : true,
                     last ? high : inner->fences[i + 1], below);
            if (what != nullptr) return what;
            if (!(below == inner->totals[i])) return "a child's totals are stale";
            totals += below;
        }
        return nullptr;
    }
};

inline const char* ScoreTree::broken() const { return TreeCheck(*this).broken(); }

}  // namespace streameval
