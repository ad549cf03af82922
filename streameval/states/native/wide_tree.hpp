// WideTree: a multiset of scores in two classes with weights of 128 bits, and W2 in 256.
//
// A ScoreTree's counts are small integers. Weights in powers of a unit are not: an event of
// a fading window weighs 2^31 units of its epoch and 2^94 of the oldest, and weights that
// are fractions have 53 digits wherever their point is. Both are whole numbers of 128 bits,
// so that
//
//     W2 = sum over (positive, negative) pairs of 2 [s+ > s-] + [s+ = s-], times both weights,
//
// stays an integer that an insertion adds to and a removal takes out, in any order, and a
// change of the unit is a shift. As in a ScoreTree one descent of a B+-tree whose inner nodes
// keep the weights below each child gives the rank that this takes. Nodes are split on the
// way down, so that an insertion never comes back. Every method leaves the tree whole when
// memory runs out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "exact128.hpp"
#include "leaf.hpp"

// Tests build with nodes so small that a hundred scores make a tall tree.
#if !defined(STREAMEVAL_WIDE_SIZE)
#define STREAMEVAL_WIDE_SIZE 64
#endif

namespace streameval {

// Distinct scores, ascending, with the weight of the negatives [0] and positives [1] at each.
// One allocation holds it all, of 8 slots up: there may be an index for each of many slices.
class WideLeaf {
  public:
    static constexpr int kMaxSize = STREAMEVAL_WIDE_SIZE;

    int size = 0;
    const int capacity;

    static WideLeaf* make(int capacity) {
        return new (::operator new(bytes_for(capacity))) WideLeaf(capacity);
    }
    static void destroy(WideLeaf* leaf) noexcept { ::operator delete(leaf); }
    static int capacity_for(int size) {
        int capacity = std::min(8, kMaxSize);
        while (capacity < size) capacity = std::min(2 * capacity, kMaxSize);
        return capacity;
    }

    Wide* of(int side) { return reinterpret_cast<Wide*>(this + 1) + (side ? capacity : 0); }
    const Wide* of(int side) const { return const_cast<WideLeaf*>(this)->of(side); }
    double* keys() { return reinterpret_cast<double*>(of(0) + 2 * capacity); }
    const double* keys() const { return const_cast<WideLeaf*>(this)->keys(); }
    std::size_t bytes() const { return bytes_for(capacity); }

    // Asks for every line of a leaf in a large tree before the search begins.
    void prefetch_all() const { prefetch(this, bytes_for(kMaxSize)); }

    // The place of the first score that is not below `key`.
    int find(double key) const { return count_below(keys(), size, key); }

    // Requires size < capacity.
    void insert(int at, double key, Wide negatives, Wide positives) {
        std::copy_backward(keys() + at, keys() + size, keys() + size + 1);
        keys()[at] = key;
        for (int side = 0; side < 2; ++side) {
            std::copy_backward(of(side) + at, of(side) + size, of(side) + size + 1);
            of(side)[at] = side ? positives : negatives;
        }
        ++size;
    }
    void erase(int at) {
        std::copy(keys() + at + 1, keys() + size, keys() + at);
        for (int side = 0; side < 2; ++side)
            std::copy(of(side) + at + 1, of(side) + size, of(side) + at);
        --size;
    }
    // Appends the slots [from, to) of another leaf, whose scores are all above.
    void append(const WideLeaf& other, int from, int to) {
        std::copy(other.keys() + from, other.keys() + to, keys() + size);
        for (int side = 0; side < 2; ++side)
            std::copy(other.of(side) + from, other.of(side) + to, of(side) + size);
        size += to - from;
    }

  private:
    explicit WideLeaf(int slots) : capacity(slots) {}
    static std::size_t bytes_for(int capacity) {
        return sizeof(WideLeaf) + static_cast<std::size_t>(capacity) * (2 * sizeof(Wide) + sizeof(double));
    }
    std::uint64_t unused_ = 0;  // weights follow the header and must be aligned
};

static_assert(sizeof(WideLeaf) % alignof(Wide) == 0, "weights follow the header");

struct WideInner {
    static constexpr int kMaxSize = std::min(32, STREAMEVAL_WIDE_SIZE);

    int size = 0;
    // Keys of child i are >= fences[i] and < fences[i + 1]; fences[0] is not read.
    double fences[kMaxSize];
    Wide of[2][kMaxSize];  // the weight of each class below each child
    void* children[kMaxSize];

    int child_of(double key) const {
        std::int64_t at = 0;
        for (int i = 1; i < size; ++i) at += fences[i] <= key ? 1 : 0;
        return static_cast<int>(at);
    }
    void insert(int at, double fence, Wide negatives, Wide positives, void* child) {
        std::copy_backward(fences + at, fences + size, fences + size + 1);
        std::copy_backward(children + at, children + size, children + size + 1);
        for (int side = 0; side < 2; ++side)
            std::copy_backward(of[side] + at, of[side] + size, of[side] + size + 1);
        fences[at] = fence;
        of[0][at] = negatives;
        of[1][at] = positives;
        children[at] = child;
        ++size;
    }
    void erase(int at) {
        std::copy(fences + at + 1, fences + size, fences + at);
        std::copy(children + at + 1, children + size, children + at);
        for (int side = 0; side < 2; ++side)
            std::copy(of[side] + at + 1, of[side] + size, of[side] + at);
        --size;
    }
    // Appends the children [from, to) of another node, which lies right above.
    void append(const WideInner& other, int from, int to) {
        for (int i = from; i < to; ++i)
            insert(size, other.fences[i], other.of[0][i], other.of[1][i], other.children[i]);
    }
};

inline Wide sum(const Wide* weights, int end) {
    Wide total = 0;
    for (int at = 0; at < end; ++at) total += weights[at];
    return total;
}

class WideTree {
  public:
    WideTree() : root_(WideLeaf::make(WideLeaf::capacity_for(1))) {}
    ~WideTree() { destroy(root_, height_); }
    WideTree(const WideTree&) = delete;
    WideTree& operator=(const WideTree&) = delete;

    void swap(WideTree& other) noexcept {
        std::swap(root_, other.root_);
        std::swap(height_, other.height_);
        std::swap(totals_, other.totals_);
        std::swap(twice_wins_, other.twice_wins_);
        std::swap(distinct_, other.distinct_);
    }
    void clear() {
        WideTree empty;
        swap(empty);
    }

    Wide negatives() const { return totals_[0]; }
    Wide positives() const { return totals_[1]; }
    U256 twice_wins() const { return twice_wins_; }
    std::size_t distinct() const { return distinct_; }

    // W2 / (2 P N), rounded once, as Python divides integers; nan while a class is missing.
    double won_share() const {
        if (totals_[0] == 0 || totals_[1] == 0) return std::numeric_limits<double>::quiet_NaN();
        return quotient(twice_wins_, product(totals_[0], totals_[1]) << 1);
    }

    // The caller keeps each class below 2^127, so that W2 < 2^255.
    // `key` is finite and not -0.0, `weight` is positive.
    void insert(bool positive, double key, Wide weight) {
        insert_gain(positive, key, [weight](Wide) { return weight; });
    }

    // Inserts gain(weight of the class at this score), which may be 0 where there is any.
    template <class F>
    void insert_gain(bool positive, double key, const F& gain) {
        const int side = positive ? 1 : 0;
        if (is_full(root_, height_)) grow();
        Path path;
        Wide under = 0;
        void** slot = &root_;
        for (int level = height_; level > 0; --level) {
            WideInner* inner = static_cast<WideInner*>(*slot);
            int at = inner->child_of(key);
            if (level == 1 && height_ > 2)
                static_cast<const WideLeaf*>(inner->children[at])->prefetch_all();
            if (is_full(inner->children[at], level - 1)) {
                split(inner, at, level - 1, key);
                if (inner->fences[at + 1] <= key) ++at;
            }
            path[level] = {inner, at};
            under += sum(inner->of[1 - side], at);
            slot = &inner->children[at];
        }
        WideLeaf* leaf = static_cast<WideLeaf*>(*slot);
        const int at = leaf->find(key);
        const bool found = at < leaf->size && leaf->keys()[at] == key;
        if (!found && leaf->size == leaf->capacity)
            *slot = leaf = with_room(leaf, leaf->size + 1);
        const Wide weight = gain(found ? leaf->of(side)[at] : 0);
        twice_wins_ += wins_of(side, leaf, at, found, under, weight);
        if (found) {
            leaf->of(side)[at] += weight;
        } else {
            leaf->insert(at, key, side ? 0 : weight, side ? weight : 0);
            ++distinct_;
        }
        totals_[side] += weight;
        for (int level = 1; level <= height_; ++level)
            path[level].node->of[side][path[level].at] += weight;
    }

    // False, and nothing changed, where so much weight never came.
    bool remove(bool positive, double key, Wide weight) {
        const int side = positive ? 1 : 0;
        Path path;
        Wide under = 0;
        void* node = root_;
        for (int level = height_; level > 0; --level) {
            WideInner* inner = static_cast<WideInner*>(node);
            const int at = inner->child_of(key);
            path[level] = {inner, at};
            under += sum(inner->of[1 - side], at);
            node = inner->children[at];
        }
        WideLeaf* leaf = static_cast<WideLeaf*>(node);
        const int at = leaf->find(key);
        if (at == leaf->size || leaf->keys()[at] != key || leaf->of(side)[at] < weight) return false;
        twice_wins_ -= wins_of(side, leaf, at, true, under, weight);
        totals_[side] -= weight;
        for (int level = 1; level <= height_; ++level)
            path[level].node->of[side][path[level].at] -= weight;
        leaf->of(side)[at] -= weight;
        if (leaf->of(0)[at] == 0 && leaf->of(1)[at] == 0) {
            leaf->erase(at);
            --distinct_;
            // Looking at a neighbour costs a cache miss: only now and then.
            constexpr int few = WideLeaf::kMaxSize / 4;
            if (leaf->size <= few && leaf->size % std::max(1, few / 4) == 0) close_gaps(path);
        }
        return true;
    }

    // Every weight times 2^bits; the caller knows that each class stays below 2^127.
    void shift_left(int bits) {
        for (Wide& total : totals_) total <<= bits;
        twice_wins_ <<= 2 * bits;
        change_weights(root_, height_, [bits](Wide& weight) { weight <<= bits; });
    }
    // Every weight by 2^bits, which divides each of them.
    void shift_right(int bits) {
        for (Wide& total : totals_) total >>= bits;
        twice_wins_ >>= 2 * bits;
        change_weights(root_, height_, [bits](Wide& weight) { weight >>= bits; });
    }

    // Replaces the content by `count` groups, ascending: next(score, weights of both classes)
    // writes them one after another.
    template <class F>
    void build(std::size_t count, F&& next) {
        WideTree built;
        if (count > 0) {
            int height = 0;
            std::size_t room = kFill;
            for (; room < count; ++height) room *= kInnerFill;
            void* root = built.build_below(height, room, count, next);
            destroy(built.root_, 0);
            built.root_ = root;
            built.height_ = height;
            built.distinct_ = count;
        }
        swap(built);
    }
    // Calls f(score, weight of negatives, weight of positives), ascending.
    template <class F>
    void each(F&& f) const {
        each_below(root_, height_, f);
    }
    // Writes the groups, ascending; `scores` has distinct() places, the others twice as
    // many: the low and the high 64 bits of each weight.
    void read_groups(double* scores, std::uint64_t* positives, std::uint64_t* negatives) const {
        each([&](double score, Wide negative, Wide positive) {
            *scores++ = score;
            write(positives, positive);
            write(negatives, negative);
        });
    }
    // The same with weights times 2^exponent, each rounded once.
    void read_scaled(double* scores, double* positives, double* negatives, int exponent) const {
        each([&](double score, Wide negative, Wide positive) {
            *scores++ = score;
            *positives++ = scaled(positive, exponent);
            *negatives++ = scaled(negative, exponent);
        });
    }

    // Replaces the content by a copy of another's.
    void copy_from(const WideTree& other) {
        WideTree copied;
        void* root = copied_below(other.root_, other.height_);
        destroy(copied.root_, 0);
        copied.root_ = root;
        copied.height_ = other.height_;
        copied.totals_[0] = other.totals_[0];
        copied.totals_[1] = other.totals_[1];
        copied.twice_wins_ = other.twice_wins_;
        copied.distinct_ = other.distinct_;
        swap(copied);
    }

    std::size_t bytes() const { return sizeof(WideTree) + bytes_below(root_, height_); }

    // The first broken invariant in words, or nullptr.
    const char* broken() const {
        Checked sum;
        const char* what = broken_below(root_, height_, -HUGE_VAL, HUGE_VAL, sum);
        if (what != nullptr) return what;
        if (sum.of[0] != totals_[0] || sum.of[1] != totals_[1])
            return "the totals are not those of the leaves";
        if (sum.distinct != distinct_) return "distinct is not the number of scores";
        if (!(sum.wins == twice_wins_)) return "W2 is not that of the scores";
        return nullptr;
    }

  private:
    struct Step {
        WideInner* node;
        int at;
    };
    // No machine holds the scores for it: a split leaves at least two children in a node.
    static constexpr int kMaxHeight = 48;
    typedef Step Path[kMaxHeight + 1];  // [height] is the root, [1] the parent of a leaf

    // Nodes are built with some room for insertions.
    static constexpr int kFill = WideLeaf::kMaxSize * 3 / 4;
    static constexpr int kInnerFill = WideInner::kMaxSize * 3 / 4;

    void* root_;
    int height_ = 0;  // 0: the root is a leaf
    Wide totals_[2] = {0, 0};
    U256 twice_wins_;
    std::size_t distinct_ = 0;

    static bool is_full(const void* node, int level) {
        return level == 0 ? static_cast<const WideLeaf*>(node)->size == WideLeaf::kMaxSize
                          : static_cast<const WideInner*>(node)->size == WideInner::kMaxSize;
    }

    // The part of W2 between `weight` of one class at a place and the whole
    // other class: 2 N_below + N_at for a positive, 2 P_above + P_at for a negative.
    U256 wins_of(int side, const WideLeaf* leaf, int at, bool found, Wide under, Wide weight) const {
        const Wide* others = leaf->of(1 - side);
        under += sum(others, at);
        const Wide equal = found ? others[at] : 0;
        return product(weight, side == 1 ? 2 * under + equal
                                         : 2 * (totals_[1 - side] - under) - equal);
    }

    static WideLeaf* with_room(WideLeaf* old, int size) {
        WideLeaf* leaf = WideLeaf::make(WideLeaf::capacity_for(size));
        leaf->append(*old, 0, old->size);
        WideLeaf::destroy(old);
        return leaf;
    }

    // Puts a node with one child above a full root.
    void grow() {
        WideInner* root = new WideInner;
        root->insert(0, 0.0, totals_[0], totals_[1], root_);
        root_ = root;
        ++height_;
    }

    // Gives the upper part of a full child to a new one; its parent has room.
    static void split(WideInner* parent, int place, int level, double key) {
        void* upper;
        double fence;
        Wide of[2];
        if (level == 0) {
            WideLeaf* left = static_cast<WideLeaf*>(parent->children[place]);
            const int cut = cut_of(left->size, left->find(key));
            WideLeaf* right = WideLeaf::make(WideLeaf::capacity_for(left->size - cut + 1));
            right->append(*left, cut, left->size);
            left->size = cut;
            upper = right;
            fence = right->keys()[0];
            for (int side = 0; side < 2; ++side) of[side] = sum(right->of(side), right->size);
        } else {
            WideInner* left = static_cast<WideInner*>(parent->children[place]);
            const int cut = cut_of(left->size, left->child_of(key) + 1);
            WideInner* right = new WideInner;
            right->append(*left, cut, left->size);
            left->size = cut;
            upper = right;
            fence = right->fences[0];
            for (int side = 0; side < 2; ++side) of[side] = sum(right->of[side], right->size);
        }
        for (int side = 0; side < 2; ++side) parent->of[side][place] -= of[side];
        parent->insert(place + 1, fence, of[0], of[1], upper);
    }

    static bool join(WideInner* parent, int left, int level) {
        if (level == 0) {
            WideLeaf* low = static_cast<WideLeaf*>(parent->children[left]);
            WideLeaf* high = static_cast<WideLeaf*>(parent->children[left + 1]);
            const int size = low->size + high->size;
            if (size > WideLeaf::kMaxSize * 3 / 4) return false;
            if (size > low->capacity) parent->children[left] = low = with_room(low, size);
            low->append(*high, 0, high->size);
            WideLeaf::destroy(high);
        } else {
            WideInner* low = static_cast<WideInner*>(parent->children[left]);
            WideInner* high = static_cast<WideInner*>(parent->children[left + 1]);
            if (low->size + high->size > WideInner::kMaxSize * 3 / 4) return false;
            high->fences[0] = parent->fences[left + 1];
            low->append(*high, 0, high->size);
            delete high;
        }
        for (Wide* of : parent->of) of[left] += of[left + 1];
        parent->erase(left + 1);
        return true;
    }

    // Joins what got small along the path of a removal. Only for memory and speed: a tree with
    // small or empty leaves is whole, and running out of memory is no reason to fail a removal.
    void close_gaps(Path& path) {
        for (int level = 1; level <= height_; ++level) {
            WideInner* parent = path[level].node;
            const int at = path[level].at;
            bool joined = false;
            try {
                joined = (at + 1 < parent->size && join(parent, at, level - 1)) ||
                         (at > 0 && join(parent, at - 1, level - 1));
            } catch (const std::bad_alloc&) {
            }
            if (!joined || parent->size > WideInner::kMaxSize / 2) break;
        }
        while (height_ > 0 && static_cast<WideInner*>(root_)->size == 1) {
            WideInner* old = static_cast<WideInner*>(root_);
            root_ = old->children[0];
            --height_;
            delete old;
        }
    }

    // A subtree of `count` groups, at most `room`, the content of full nodes of its height; and
    // counts them.
    template <class F>
    void* build_below(int level, std::size_t room, std::size_t count, F& next) {
        if (level == 0) {
            WideLeaf* leaf = WideLeaf::make(WideLeaf::capacity_for(static_cast<int>(count)));
            for (; leaf->size < static_cast<int>(count); ++leaf->size) {
                Wide weights[2];
                next(leaf->keys()[leaf->size], weights);
                twice_wins_ += product(weights[1], 2 * totals_[0] + weights[0]);
                for (int side = 0; side < 2; ++side) {
                    leaf->of(side)[leaf->size] = weights[side];
                    totals_[side] += weights[side];
                }
            }
            return leaf;
        }
        room /= kInnerFill;
        const std::size_t children = (count + room - 1) / room;
        WideInner* inner = new WideInner;
        try {
            for (std::size_t i = 0; i < children; ++i) {
                const Wide before[2] = {totals_[0], totals_[1]};
                const std::size_t share = count * (i + 1) / children - count * i / children;
                void* child = build_below(level - 1, room, share, next);
                inner->insert(inner->size, first_below(child, level - 1), totals_[0] - before[0],
                              totals_[1] - before[1], child);
            }
        } catch (...) {
            destroy(inner, level);
            throw;
        }
        return inner;
    }
    static double first_below(const void* node, int level) {
        for (; level > 0; --level) node = static_cast<const WideInner*>(node)->children[0];
        return static_cast<const WideLeaf*>(node)->keys()[0];
    }

    static void destroy(void* node, int level) noexcept {
        if (level == 0) {
            WideLeaf::destroy(static_cast<WideLeaf*>(node));
            return;
        }
        WideInner* inner = static_cast<WideInner*>(node);
        for (int i = 0; i < inner->size; ++i) destroy(inner->children[i], level - 1);
        delete inner;
    }

    static void* copied_below(const void* node, int level) {
        if (level == 0) {
            const WideLeaf* leaf = static_cast<const WideLeaf*>(node);
            WideLeaf* copied = WideLeaf::make(leaf->capacity);
            copied->append(*leaf, 0, leaf->size);
            return copied;
        }
        const WideInner* inner = static_cast<const WideInner*>(node);
        WideInner* copied = new WideInner;
        try {
            for (int i = 0; i < inner->size; ++i)
                copied->insert(i, inner->fences[i], inner->of[0][i], inner->of[1][i],
                               copied_below(inner->children[i], level - 1));
        } catch (...) {
            destroy(copied, level);
            throw;
        }
        return copied;
    }

    template <class F>
    static void change_weights(void* node, int level, const F& f) {
        const bool is_leaf = level == 0;
        WideInner* inner = static_cast<WideInner*>(node);
        WideLeaf* leaf = static_cast<WideLeaf*>(node);
        const int size = is_leaf ? leaf->size : inner->size;
        for (int side = 0; side < 2; ++side) {
            Wide* weights = is_leaf ? leaf->of(side) : inner->of[side];
            std::for_each(weights, weights + size, f);
        }
        for (int i = 0; i < size && !is_leaf; ++i) change_weights(inner->children[i], level - 1, f);
    }

    template <class F>
    static void each_below(const void* node, int level, F& f) {
        if (level == 0) {
            const WideLeaf* leaf = static_cast<const WideLeaf*>(node);
            for (int at = 0; at < leaf->size; ++at) f(leaf->keys()[at], leaf->of(0)[at], leaf->of(1)[at]);
            return;
        }
        const WideInner* inner = static_cast<const WideInner*>(node);
        for (int i = 0; i < inner->size; ++i) each_below(inner->children[i], level - 1, f);
    }

    static void write(std::uint64_t*& to, Wide weight) {
        *to++ = static_cast<std::uint64_t>(weight);
        *to++ = static_cast<std::uint64_t>(weight >> 64);
    }

    static std::size_t bytes_below(const void* node, int level) {
        if (level == 0) return static_cast<const WideLeaf*>(node)->bytes();
        const WideInner* inner = static_cast<const WideInner*>(node);
        std::size_t bytes = sizeof(WideInner);
        for (int i = 0; i < inner->size; ++i) bytes += bytes_below(inner->children[i], level - 1);
        return bytes;
    }

    struct Checked {
        Wide of[2] = {0, 0};
        U256 wins;
        std::size_t distinct = 0;
    };
    // Adds what lies below a node to a sum of all scores before it.
    static const char* broken_below(const void* node, int level, double low, double high,
                                    Checked& sum) {
        if (level == 0) {
            const WideLeaf* leaf = static_cast<const WideLeaf*>(node);
            if (leaf->size > leaf->capacity || leaf->capacity > WideLeaf::kMaxSize)
                return "a leaf is over its capacity";
            for (int at = 0; at < leaf->size; ++at) {
                const double key = leaf->keys()[at];
                const Wide negative = leaf->of(0)[at], positive = leaf->of(1)[at];
                if (!(key - key == 0.0)) return "a score is not finite";
                if (at > 0 && !(leaf->keys()[at - 1] < key)) return "the scores do not ascend";
                if (!(low <= key && key < high)) return "a score is outside its leaf's fences";
                if (negative == 0 && positive == 0) return "a score weighs nothing";
                sum.wins += product(positive, 2 * sum.of[0] + negative);
                sum.of[0] += negative;
                sum.of[1] += positive;
                ++sum.distinct;
            }
            return nullptr;
        }
        const WideInner* inner = static_cast<const WideInner*>(node);
        if (inner->size < 1 || inner->size > WideInner::kMaxSize) return "an inner node's size is wrong";
        for (int i = 0; i < inner->size; ++i) {
            const Wide before[2] = {sum.of[0], sum.of[1]};
            const double from = i == 0 ? low : inner->fences[i];
            const double to = i + 1 == inner->size ? high : inner->fences[i + 1];
            if (!(from <= to)) return "the fences do not ascend";
            const char* what = broken_below(inner->children[i], level - 1, from, to, sum);
            if (what != nullptr) return what;
            for (int side = 0; side < 2; ++side)
                if (before[side] + inner->of[side][i] != sum.of[side]) return "a child's weights are stale";
        }
        return nullptr;
    }
};

}  // namespace streameval
