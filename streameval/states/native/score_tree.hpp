// A multiset of scores in two classes that knows W2 at any moment: a ScoreTree of weights of 64
// bits, or a WideTree of 128.
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
//
// Weights in powers of a unit need 128 bits: an event of a fading window weighs 2^31 units of its
// epoch and 2^94 of the oldest, and weights that are fractions have 53 digits wherever their point
// is. W2 then has 256, and a change of the unit is a shift. A WideTree keeps no sums of DeLong's.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "exact128.hpp"
#include "leaf.hpp"

namespace streameval {

template <class Weight>
struct BasicInner {
    using Totals = BasicTotals<Weight>;
    using Part = BasicPart<Weight>;

    static constexpr int kMaxSize = 16;

    int size = 0;
    // Keys of child i are >= fences[i] and < fences[i + 1]; fences[0] is not read.
    double fences[kMaxSize];
    Totals totals[kMaxSize];
    void* children[kMaxSize];
    // W2 of the pairs inside each child; null until DeLong's sums are kept.
    Pairs<Weight>* wins = nullptr;

    static BasicInner* make(LeafPool& pool, bool keeps_wins) {
        void* block = pool.take(sizeof(BasicInner), LeafPool::kKinds - 2);
        BasicInner* inner = new (block) BasicInner;
        if (keeps_wins) inner->keep_wins(pool);
        return inner;
    }
    static void destroy(LeafPool& pool, BasicInner* inner) {
        if (inner->wins) pool.give(inner->wins, kMaxSize * sizeof(*wins), LeafPool::kKinds - 1);
        pool.give(inner, sizeof(BasicInner), LeafPool::kKinds - 2);
    }
    void keep_wins(LeafPool& pool) {
        void* block = pool.take(kMaxSize * sizeof(*wins), LeafPool::kKinds - 1);
        wins = static_cast<Pairs<Weight>*>(std::memset(block, 0, kMaxSize * sizeof(*wins)));
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

    void insert(int at, double fence, const Totals& total, void* child, Pairs<Weight> won = {}) {
        move(at, at + 1);
        fences[at] = fence;
        totals[at] = total;
        children[at] = child;
        if (wins) wins[at] = won;
    }
    // Appends the children from `cut` on of the node right above.
    void append(const BasicInner& from, int cut) {
        for (int i = cut; i < from.size; ++i)
            insert(size, from.fences[i], from.totals[i], from.children[i],
                   from.wins ? from.wins[i] : Pairs<Weight>());
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
        if (wins) std::memmove(static_cast<void*>(wins + to), wins + from, count * sizeof(*wins));
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

template <class Weight>
class BasicTree {
  public:
    using Inner = BasicInner<Weight>;
    using Leaf = BasicLeaf<Weight>;
    using Part = BasicPart<Weight>;
    using Totals = BasicTotals<Weight>;

    BasicTree() : root_(Leaf::make(pool_, Leaf::capacity_for(1), Leaf::shift_for(0))) {}
    // One that was moved from is assigned to or destroyed next.
    BasicTree(BasicTree&&) = default;
    BasicTree& operator=(BasicTree&&) = default;
    void swap(BasicTree& other) noexcept { std::swap(*this, other); }
    void clear() {
        BasicTree empty;
        swap(empty);
    }

    Weight negatives() const { return totals_.of[0]; }
    Weight positives() const { return totals_.of[1]; }
    Pairs<Weight> twice_u() const { return twice_u_; }
    std::size_t distinct() const { return distinct_; }
    std::size_t bytes() const { return sizeof(BasicTree) + pool_.bytes(); }

    // W2 / (2 P N), rounded once, as Python divides integers; nan while a class is missing.
    double auc() const {
        if (totals_.of[0] == 0 || totals_.of[1] == 0) return std::numeric_limits<double>::quiet_NaN();
        return quotient(twice_u_, product(totals_.of[0], totals_.of[1]) << 1);
    }

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

    // The caller keeps each class below 2^62, so that W2 < 2^125; or 2^127, and W2 < 2^255.
    // `key` is finite and not -0.0, `weight` is positive.
    void insert(bool positive, double key, Weight weight) {
        insert_gain(positive, key, [weight](Weight) { return weight; });
    }

    // Inserts gain(weight of the class at this score), which may be 0 where there is any.
    template <class F>
    void insert_gain(bool positive, double key, const F& gain) {
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
            const Weight here = found ? leaf->weight(side, at) : 0, weight = gain(here);
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
    bool remove(bool positive, double key, Weight weight) {
        const int side = positive ? 1 : 0;
        Path path;
        Totals below;
        Leaf* leaf = descend(key, path, below);
        const int at = leaf->find(key);
        if (at == leaf->size() || leaf->keys()[at] != key) return false;
        const Weight here = leaf->weight(side, at);
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

    // Of 128 bits: every weight times 2^bits; the caller knows that each class stays below 2^127.
    void shift_left(int bits) {
        twice_u_ <<= 2 * bits;
        change_weights([bits](Weight& weight) { weight <<= bits; });
    }
    // Every weight by 2^bits, which divides each of them.
    void shift_right(int bits) {
        twice_u_ >>= 2 * bits;
        change_weights([bits](Weight& weight) { weight >>= bits; });
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

    // Calls f(score, weight of negatives, weight of positives), ascending.
    template <class F>
    void each(F&& f) const {
        each_leaf_from(-HUGE_VAL, false, [&](const Leaf* leaf) {
            leaf->read_pairs([&](int at, Weight low, Weight high) { f(leaf->keys()[at], low, high); });
            return true;
        });
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
    void copy_from(const BasicTree& other) {
        BasicTree copied;
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
    template <class>
    friend class BasicTreeBuilder;
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
    Pairs<Weight> twice_u_{};
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
    Pairs<Weight> wins_of(int side, const Leaf* leaf, int at, bool found, const Totals& below,
                          Weight weight) const {
        const int other = 1 - side;
        const Weight under = below.of[other] + leaf->sum(other, at);
        const Weight equal = found ? leaf->weight(other, at) : 0;
        const Weight twice =
            side == 1 ? 2 * under + equal : 2 * (totals_.of[other] - under) - equal;
        return product(weight, twice);
    }

    // Adds to the weight of one class of the tree and along a path, or takes from it.
    void change_totals(Path& path, int side, Weight weight) {
        totals_.of[side] += weight;
        for (int level = 1; level <= height_; ++level)
            path[level].node->totals[path[level].at].of[side] += weight;
    }

    template <class F>
    void change_weights(const F& f) {
        change_below(root_, height_, f);
        std::for_each(totals_.of, totals_.of + 2, f);
    }
    template <class F>
    static void change_below(void* node, int level, const F& f);

    void replace_leaf(Path& path, Leaf* old, int capacity, int shift) {
        Leaf* leaf = old->copied(pool_, 0, old->size(), capacity, shift);
        Leaf::destroy(pool_, old);
        (height_ == 0 ? root_ : path[1].node->children[path[1].at]) = leaf;
    }

    void keep_delong();
    Part keep_below(void* node, int level, Totals& below, DelongSums& sums);
    void change_delong(Path& path, const Leaf* leaf, int at, bool found, Weight own, int side,
                       Weight weight, bool added);

    void make_room(Path& path, Leaf* leaf, int at);
    void close_gaps(Path& path);
    bool join(Inner* parent, int left, int level);

    template <class F>
    static bool each_leaf(const void* node, int level, double score, bool down, F& f);
    static void* copied_below(LeafPool& pool, const void* node, int level);
    const char* broken_below(const void* node, int level, double low, double high,
                             Checked& sum) const;
};

using Inner = BasicInner<std::uint64_t>;
using ScoreTree = BasicTree<std::uint64_t>;
using WideTree = BasicTree<Wide>;

}  // namespace streameval

#include "tree_delong.hpp"
#include "tree_gap.hpp"
#include "tree_shape.hpp"
