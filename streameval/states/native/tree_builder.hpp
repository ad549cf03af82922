// TreeBuilder: leaves from ascending groups, then the levels above them.
//
// W2 comes from the leaves' totals on the way, so nothing is ranked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "score_tree.hpp"

namespace streameval {

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

// The bits of a finite score as an integer of the same order, and back: an integer is compared in
// one cycle, a double in three or four, and merging waits for each comparison.
inline std::int64_t ordered(std::int64_t bits) { return bits ^ ((bits >> 63) & INT64_MAX); }

// Ascending groups, a block at a time.
template <class Weight>
struct BasicGroupBlock {
    static constexpr int kSize = BasicLeaf<Weight>::kMaxSize;

    std::int64_t keys[kSize];  // ordered scores
    BasicTotals<Weight> weights[kSize];
    int size = 0;
};

// The caller fills `next` and calls flush() whenever its size reaches target(), or calls add().
template <class Weight>
class BasicTreeBuilder {
    using Tree = BasicTree<Weight>;
    using GroupBlock = BasicGroupBlock<Weight>;
    using Inner = typename Tree::Inner;
    using Leaf = typename Tree::Leaf;
    using Totals = typename Tree::Totals;

  public:
    GroupBlock next;

    int target() const { return target_; }

    // Appends a group, or adds to the last one where that is of the same score.
    void add(double score, Weight negatives, Weight positives) {
        const std::int64_t key = ordered(bits_of(score));
        if (next.size == 0 || next.keys[next.size - 1] != key) {
            if (next.size >= target_) flush();
            next.keys[next.size] = key;
            next.weights[next.size++] = Totals();
        }
        next.weights[next.size - 1] += Totals{{negatives, positives}};
    }

    // Makes a leaf of the first target() groups, or of what there is.
    void flush() {
        const int count = std::min(next.size, target_);
        add_leaf(count);
        std::copy(next.keys + count, next.keys + next.size, next.keys);
        std::copy(next.weights + count, next.weights + next.size, next.weights);
        next.size -= count;
        // Leaves of different fill do not all split in one burst later on.
        target_ = kLeast + (target_ - kLeast + kStride) % (GroupBlock::kSize - kLeast);
    }

    // Gives everything to a tree, whose content is replaced.
    void finish(Tree& tree) {
        while (next.size > 0) flush();
        Tree built;
        if (!made_.empty()) {
            for (; made_.size() > 1; ++built.height_) raise_level();
            built.pool_ = std::move(pool_);
            built.root_ = made_[0].node;
            built.totals_ = sum_.totals;
            built.twice_u_ = sum_.wins;
            built.distinct_ = distinct_;
        }
        tree = std::move(built);
    }

  private:
    static constexpr int kLeast = Leaf::kMaxSize * 11 / 16;
    static constexpr int kStride = Leaf::kMaxSize * 3 / 32;
    static constexpr std::size_t kChildren = Inner::kMaxSize * 3 / 4;

    struct Made {
        double first;
        Totals totals;
        void* node;
    };
    LeafPool pool_;
    std::vector<Made> made_;  // the nodes of the highest level so far
    int target_ = kLeast;
    BasicPart<Weight> sum_;
    std::size_t distinct_ = 0;

    void add_leaf(int count) {
        double scores[GroupBlock::kSize];
        Weight sides[2][GroupBlock::kSize], bits = 0;  // of all weights: as wide as the largest
        for (int at = 0; at < count; ++at) {
            scores[at] = score_of(ordered(next.keys[at]));
            sides[0][at] = next.weights[at].of[0];
            sides[1][at] = next.weights[at].of[1];
            bits |= sides[0][at] | sides[1][at];
        }
        Leaf* leaf = Leaf::make(pool_, Leaf::capacity_for(count), Leaf::shift_for(bits));
        leaf->assign(count, scores, sides[0], sides[1]);
        const BasicPart<Weight> part = leaf->part(count);
        made_.push_back({scores[0], part.totals, leaf});
        sum_ += part;
        distinct_ += static_cast<std::size_t>(count);
    }

    void raise_level() {
        const std::size_t count = made_.size(), nodes = (count + kChildren - 1) / kChildren;
        std::vector<Made> raised;
        for (std::size_t n = 0; n < nodes; ++n) {
            const std::size_t from = count * n / nodes, to = count * (n + 1) / nodes;
            Inner* inner = Inner::make(pool_, false);
            for (std::size_t i = from; i < to; ++i)
                inner->insert(inner->size, made_[i].first, made_[i].totals, made_[i].node);
            raised.push_back({made_[from].first, inner->before(inner->size), inner});
        }
        made_.swap(raised);
    }
};

using GroupBlock = BasicGroupBlock<std::uint64_t>;
using TreeBuilder = BasicTreeBuilder<std::uint64_t>;

}  // namespace streameval
