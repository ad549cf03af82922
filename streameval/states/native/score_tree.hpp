// ScoreTree: a multiset of scores in two classes that knows W2 at any moment.
//
// A B+-tree whose inner nodes keep, beside each child, the Totals below it.
// One descent finds the place of a score and, on the way, the weight of both
// classes below it; that rank is all an insertion or removal needs to keep
//
//     W2 = sum over (positive, negative) pairs of 2 [s+ > s-] + [s+ = s-]
//
// current. Once delong_sums() was read, the same rank and the W2 of the scores
// below keep the sums of DeLong's variance current as well; until then they cost
// a branch. Every method leaves the tree whole when memory runs out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "exact128.hpp"
#include "leaf.hpp"

namespace streameval {

struct Inner {
    static constexpr int kMaxSize = 16;

    int size = 0;
    // Keys of child i are >= fences[i] and < fences[i + 1]; fences[0] is not read.
    double fences[kMaxSize];
    Totals totals[kMaxSize];
    void* children[kMaxSize];
    // W2 of the pairs inside each child; null until DeLong's sums are kept.
    Wide* wins = nullptr;

    static Inner* make(LeafPool& pool, bool keeps_wins) {
        Inner* inner = new (pool.take(sizeof(Inner), LeafPool::kKinds - 2)) Inner;
        if (keeps_wins) inner->keep_wins(pool);
        return inner;
    }
    static void destroy(LeafPool& pool, Inner* inner) {
        if (inner->wins) pool.give(inner->wins, kMaxSize * sizeof(Wide), LeafPool::kKinds - 1);
        pool.give(inner, sizeof(Inner), LeafPool::kKinds - 2);
    }
    void keep_wins(LeafPool& pool) {
        void* block = pool.take(kMaxSize * sizeof(Wide), LeafPool::kKinds - 1);
        wins = static_cast<Wide*>(std::memset(block, 0, kMaxSize * sizeof(Wide)));
    }

    int child_of(double key) const {
        std::int64_t at = 0;
        for (int i = 1; i < size; ++i) at += fences[i] <= key ? 1 : 0;
        return static_cast<int>(at);
    }
    Totals before(int end) const {
        Totals sum;
        for (int at = 0; at < end; ++at) sum += totals[at];
        return sum;
    }
    // before() with W2; requires wins.
    Part part(int end) const {
        Part part;
        for (int at = 0; at < end; ++at) part += Part{totals[at], wins[at]};
        return part;
    }

    void insert(int at, double fence, const Totals& total, void* child, Wide won = 0) {
        move(at, at + 1);
        fences[at] = fence;
        totals[at] = total;
        children[at] = child;
        if (wins) wins[at] = won;
    }
    // Appends the children from `cut` on of the node right above.
    void append(const Inner& from, int cut) {
        for (int i = cut; i < from.size; ++i)
            insert(size, from.fences[i], from.totals[i], from.children[i],
                   from.wins ? from.wins[i] : Wide(0));
    }
    // Gives the upper part of a child to a new one; the caller sets their wins.
    void split(int at, double fence, const Totals& upper, void* child) {
        totals[at] -= upper;
        insert(at + 1, fence, upper, child);
    }
    // Counts the next child into one that has taken over its content.
    void join(int at) {
        if (wins) {
            Part joined{totals[at], wins[at]};
            joined += Part{totals[at + 1], wins[at + 1]};
            wins[at] = joined.wins;
        }
        totals[at] += totals[at + 1];
        move(at + 2, at + 1);
    }

  private:
    // Moves the children from `from` on to another place.
    void move(int from, int to) {
        const std::size_t count = static_cast<std::size_t>(size - from);
        std::memmove(fences + to, fences + from, count * sizeof(double));
        std::memmove(static_cast<void*>(totals + to), totals + from, count * sizeof(Totals));
        std::memmove(children + to, children + from, count * sizeof(void*));
        if (wins) std::memmove(static_cast<void*>(wins + to), wins + from, count * sizeof(Wide));
        size += to - from;
    }
};

// The sums of DeLong's variance over groups of p positives and n negatives:
// p (2 N_below + n)^2, and n (2 P_above + p)^2. Below 2^189 each.
struct DelongSums {
    U256 q10, q01;

    bool operator==(const DelongSums& other) const { return q10 == other.q10 && q01 == other.q01; }
    void add(std::uint64_t p, std::uint64_t r, std::uint64_t n, std::uint64_t t) {
        q10 += product(product(r, r), p);
        q01 += product(product(t, t), n);
    }
};

class ScoreTree {
  public:
    ScoreTree() : root_(Leaf::make(pool_, 8, 0)) {}
    // One that was moved from is assigned to or destroyed next.
    ScoreTree(ScoreTree&&) = default;
    ScoreTree& operator=(ScoreTree&&) = default;
    void swap(ScoreTree& other) noexcept { std::swap(*this, other); }

    std::uint64_t negatives() const { return totals_.of[0]; }
    std::uint64_t positives() const { return totals_.of[1]; }
    Wide twice_u() const { return twice_u_; }
    std::size_t distinct() const { return distinct_; }
    std::size_t bytes() const { return sizeof(ScoreTree) + pool_.bytes(); }

    // Whether delong_sums() is O(1); it is not again after the content was replaced.
    bool keeps_delong() const { return keeps_delong_; }
    const DelongSums& delong_sums() {
        if (!keeps_delong_) keep_delong();
        return delong_;
    }

    // DeLong's variance of the AUC; nan where it is not kept, or does not fit 128 bits.
    double auc_variance() const;

    // The largest |TPR - FPR| over all thresholds; nan while a class is missing.
    double ks_statistic() const;

    // The caller keeps each class below 2^62, so that W2 < 2^125.
    // `key` is finite and not -0.0, `weight` is positive.
    void insert(bool positive, double key, std::uint64_t weight) {
        const int side = positive ? 1 : 0;
        Path path;
        for (;;) {
            Totals below;
            Leaf* leaf = descend(key, path, below);
            const int at = leaf->find(key);
            const bool found = at < leaf->size() && leaf->keys()[at] == key;
            if (!found && leaf->size() == leaf->capacity()) {
                make_room(path, leaf, at);
                continue;
            }
            const std::uint64_t here = found ? leaf->weight(side, at) : 0;
            const int shift = Leaf::shift_for(here + weight);
            if (shift > leaf->shift()) {
                replace_leaf(path, leaf, leaf->capacity(), shift);
                continue;
            }
            if (keeps_delong_) change_delong(path, leaf, at, found, here, side, weight, true);
            twice_u_ += wins_of(side, leaf, at, found, below, weight);
            if (found) {
                leaf->add(side, at, weight);
            } else {
                leaf->insert(at, key, side, weight);
                ++distinct_;
            }
            change_totals(path, side, weight);
            return;
        }
    }

    // False, and nothing changed, where so much weight never came.
    bool remove(bool positive, double key, std::uint64_t weight) {
        const int side = positive ? 1 : 0;
        Path path;
        Totals below;
        Leaf* leaf = descend(key, path, below);
        const int at = leaf->find(key);
        if (at == leaf->size() || leaf->keys()[at] != key) return false;
        const std::uint64_t here = leaf->weight(side, at);
        if (here < weight) return false;
        twice_u_ -= wins_of(side, leaf, at, true, below, weight);
        change_totals(path, side, 0 - weight);
        if (keeps_delong_) change_delong(path, leaf, at, true, here - weight, side, weight, false);
        if (here > weight || leaf->weight(1 - side, at) != 0) {
            leaf->add(side, at, 0 - weight);
            return true;
        }
        leaf->erase(at);
        --distinct_;
        // Looking at a neighbour costs a cache miss: only now and then.
        if (leaf->size() <= Leaf::kMaxSize / 2 && leaf->size() % (Leaf::kMaxSize / 16) == 0)
            close_gaps(path);
        return true;
    }

    // Calls f(leaf) from the leaf in which a score is or would be, up or down, while it is true.
    template <class F>
    void each_leaf_from(double score, bool down, F&& f) const {
        each_leaf(root_, height_, score, down, f);
    }
    // Leaves in ascending order.
    std::vector<const Leaf*> leaves() const {
        std::vector<const Leaf*> found;
        each_leaf_from(-HUGE_VAL, false, [&](const Leaf* leaf) {
            found.push_back(leaf);
            return true;
        });
        return found;
    }

    // Arrays that groups are read into: places [from, end) are free.
    struct Room {
        double* scores;
        std::int64_t* positives;
        std::int64_t* negatives;
        std::size_t from;
        std::size_t end;
    };
    // Reads the groups right above a score, from the first place on, or those right
    // below it, up to the last place, until the arrays are full. Ascending either way.
    void read_groups(double score, bool down, Room& room) const;

    // Replaces the content by a copy of another's, which keeps no sums of DeLong's.
    void copy_from(const ScoreTree& other) {
        ScoreTree copied;
        copied.root_ = copied_below(copied.pool_, other.root_, other.height_);
        copied.height_ = other.height_;
        copied.totals_ = other.totals_;
        copied.twice_u_ = other.twice_u_;
        copied.distinct_ = other.distinct_;
        swap(copied);
    }

    // The first broken invariant in words, or nullptr.
    const char* broken() const;

  private:
    friend class TreeBuilder;
    struct Checked;

    struct Step {
        Inner* node;
        int at;
    };
    // Height grows by one when the root of 16 children is full; no machine
    // holds the scores for a height of 24.
    static constexpr int kMaxHeight = 24;
    typedef Step Path[kMaxHeight + 1];  // [height] is the root, [1] the parent of a leaf

    LeafPool pool_;
    void* root_;
    int height_ = 0;  // 0: the root is a leaf
    Totals totals_;
    Wide twice_u_ = 0;
    std::size_t distinct_ = 0;
    bool keeps_delong_ = false;  // then every inner node keeps its wins
    DelongSums delong_;

    Leaf* descend(double key, Path& path, Totals& below) const {
        void* node = root_;
        for (int level = height_; level > 0; --level) {
            Inner* inner = static_cast<Inner*>(node);
            const int at = inner->child_of(key);
            node = inner->children[at];
            if (height_ > 2 && level == 2) prefetch(node, sizeof(Inner));
            if (height_ > 2 && level == 1) static_cast<const Leaf*>(node)->prefetch_all();
            path[level].node = inner;
            path[level].at = at;
            below += inner->before(at);
        }
        return static_cast<Leaf*>(node);
    }

    // The part of W2 between `weight` of one class at a place and the whole
    // other class: 2 N_below + N_at for a positive, 2 P_above + P_at for a negative.
    Wide wins_of(int side, const Leaf* leaf, int at, bool found, const Totals& below,
                 std::uint64_t weight) const {
        const int other = 1 - side;
        const std::uint64_t under = below.of[other] + leaf->sum(other, at);
        const std::uint64_t equal = found ? leaf->weight(other, at) : 0;
        const std::uint64_t twice =
            side == 1 ? 2 * under + equal : 2 * (totals_.of[other] - under) - equal;
        return product(weight, twice);
    }

    // Adds to the weight of one class of the tree and along a path, or takes from it.
    void change_totals(Path& path, int side, std::uint64_t weight) {
        totals_.of[side] += weight;
        for (int level = 1; level <= height_; ++level)
            path[level].node->totals[path[level].at].of[side] += weight;
    }

    void replace_leaf(Path& path, Leaf* old, int capacity, int shift) {
        Leaf* leaf = old->copied(pool_, 0, old->size(), capacity, shift);
        Leaf::destroy(pool_, old);
        (height_ == 0 ? root_ : path[1].node->children[path[1].at]) = leaf;
    }

    void keep_delong();
    Part keep_below(void* node, int level, Totals& below, DelongSums& sums);
    void change_delong(Path& path, const Leaf* leaf, int at, bool found, std::uint64_t own,
                       int side, std::uint64_t weight, bool added);

    void make_room(Path& path, Leaf* leaf, int at);
    void close_gaps(Path& path);
    bool join(Inner* parent, int left, int level);

    template <class F>
    static bool each_leaf(const void* node, int level, double score, bool down, F& f);
    static void* copied_below(LeafPool& pool, const void* node, int level);
    const char* broken_below(const void* node, int level, double low, double high,
                             Checked& sum) const;
};

}  // namespace streameval

#include "tree_delong.hpp"
#include "tree_gap.hpp"
#include "tree_shape.hpp"
