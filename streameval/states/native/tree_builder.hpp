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

// A finite score as an integer of the same order: an integer is compared in one
// cycle, a double in three or four, and merging waits for each comparison.
inline std::int64_t ordered(std::int64_t bits) { return bits ^ ((bits >> 63) & INT64_MAX); }

// The weights of one group, both classes in one word while they are short. A
// merge then moves one word a group in place of two.
struct ShortPair {
    std::uint64_t bits = 0;

    static ShortPair of(std::uint64_t negatives, std::uint64_t positives) {
        return {negatives | positives << 32};
    }
    std::uint64_t negatives() const { return bits & UINT32_MAX; }
    std::uint64_t positives() const { return bits >> 32; }
    ShortPair masked(std::uint64_t mask) const { return {bits & mask}; }
    ShortPair operator+(const ShortPair& other) const { return {bits + other.bits}; }
};

struct LongPair {
    std::uint64_t low = 0, high = 0;

    static LongPair of(std::uint64_t negatives, std::uint64_t positives) {
        return {negatives, positives};
    }
    std::uint64_t negatives() const { return low; }
    std::uint64_t positives() const { return high; }
    LongPair masked(std::uint64_t mask) const { return {low & mask, high & mask}; }
    LongPair operator+(const LongPair& other) const { return {low + other.low, high + other.high}; }
};

constexpr int kBlock = Leaf::kMaxSize;

template <class Pair>
class TreeBuilder {
  public:
    // Room for the next groups: ordered scores and weights; the caller fills
    // them from `size` on and calls flush() whenever size reaches target().
    std::int64_t keys[kBlock];
    Pair weights[kBlock];
    int size = 0;

    TreeBuilder() = default;
    TreeBuilder(const TreeBuilder&) = delete;
    TreeBuilder& operator=(const TreeBuilder&) = delete;
    ~TreeBuilder() {
        for (const Made& made : made_) ScoreTree::destroy(pool_, made.node, level_);
    }

    int target() const { return target_; }

    // Makes a leaf of the first target() groups, or of what there is.
    void flush() {
        const int count = std::min(size, target_);
        for (int at = 0; at < count; ++at) {
            const std::int64_t bits = ordered(keys[at]);
            std::memcpy(&plain_[at], &bits, sizeof bits);
            sides_[0][at] = weights[at].negatives();
            sides_[1][at] = weights[at].positives();
        }
        add_leaf(count);
        std::copy(keys + count, keys + size, keys);
        std::copy(weights + count, weights + size, weights);
        size -= count;
        // Leaves of different fill do not all split in one burst later on.
        target_ = kLeast + (target_ - kLeast + kStride) % (kBlock - kLeast);
    }

    // Gives everything to a tree, whose content is replaced.
    void finish(ScoreTree& tree) {
        while (size > 0) flush();
        ScoreTree built;
        if (!made_.empty()) {
            while (made_.size() > 1) raise_level();
            ScoreTree::destroy(built.pool_, built.root_, 0);
            built.pool_.swap(pool_);
            built.root_ = made_[0].node;
            built.height_ = level_;
            built.totals_ = sum_.totals;
            built.twice_wins_ = sum_.wins;
            built.distinct_ = distinct_;
            built.widest_ = widest_;
            made_.clear();
        }
        tree.swap(built);
    }

  private:
    static constexpr int kLeast = kBlock * 11 / 16;
    static constexpr int kStride = kBlock * 3 / 32;
    static constexpr std::size_t kChildren = Inner::kMaxSize * 3 / 4;

    struct Made {
        double first;
        Totals totals;
        void* node;
    };
    LeafPool pool_;
    std::vector<Made> made_;  // the nodes of the highest level so far
    int level_ = 0;
    int target_ = kLeast;
    int widest_ = 0;
    Part sum_;
    std::size_t distinct_ = 0;
    double plain_[kBlock];
    std::uint64_t sides_[2][kBlock];

    void add_leaf(int count) {
        std::uint64_t bits = 0;  // of all weights: as wide as the largest
        for (int at = 0; at < count; ++at) bits |= sides_[0][at] | sides_[1][at];
        const int shift = Leaf::shift_for(bits);
        made_.push_back({plain_[0], Totals(), nullptr});
        Leaf* leaf;
        try {
            leaf = Leaf::make(pool_, Leaf::capacity_for(count), shift);
        } catch (...) {
            made_.pop_back();
            throw;
        }
        leaf->assign(count, plain_, sides_[0], sides_[1]);
        const Part part = leaf->part(count);
        made_.back().totals = part.totals;
        made_.back().node = leaf;
        sum_ += part;
        distinct_ += static_cast<std::size_t>(count);
        widest_ = std::max(widest_, shift);
    }

    void raise_level() {
        const std::size_t count = made_.size();
        const std::size_t nodes = (count + kChildren - 1) / kChildren;
        std::vector<Made> raised;
        raised.reserve(nodes);
        try {
            for (std::size_t n = 0; n < nodes; ++n) {
                const std::size_t from = count * n / nodes, to = count * (n + 1) / nodes;
                Inner* inner = new Inner(false);
                for (std::size_t i = from; i < to; ++i)
                    inner->insert(inner->size, made_[i].first, made_[i].totals, made_[i].node);
                raised.push_back({made_[from].first, inner->sum(), inner});
            }
        } catch (...) {
            // The children stay with made_, which frees them.
            for (const Made& made : raised) delete static_cast<Inner*>(made.node);
            throw;
        }
        made_.swap(raised);
        ++level_;
    }
};

}  // namespace streameval
