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
#include <limits>
#include <new>
#include <utility>

#include "exact128.hpp"
#include "leaf.hpp"

// Tests build with nodes so small that a hundred scores make a tall tree.
#if !defined(STREAMEVAL_WIDE_SIZE)
#define STREAMEVAL_WIDE_SIZE 64
#endif

namespace streameval {

inline Wide sum(const Wide* weights, int end) {
    Wide total = 0;
    for (int at = 0; at < end; ++at) total += weights[at];
    return total;
}

// Ascending keys with the weight of the negatives [0] and positives [1] at each. In a leaf,
// which has level 0, a key is a score. In an inner node it is the fence of a child: keys of
// child i are >= fence i and < fence i + 1, and fence 0 is not read.
//
// One allocation holds it all, in a leaf of 8 slots up: there may be an index for each of many
// slices.
class WideNode {
  public:
    int size = 0;
    const std::int16_t capacity, level;

    // With room for `size` keys.
    static WideNode* make(int level, int size) {
        int capacity = std::min(8, STREAMEVAL_WIDE_SIZE);
        while (capacity < size) capacity = std::min(2 * capacity, STREAMEVAL_WIDE_SIZE);
        if (level > 0) capacity = most(level);
        return new (::operator new(bytes_for(level, capacity))) WideNode(capacity, level);
    }
    // Without what lies below.
    static void free(WideNode* node) noexcept { ::operator delete(node); }
    static void destroy(WideNode* node) noexcept {
        for (int i = 0; i < node->size && node->level > 0; ++i) destroy(node->children()[i]);
        free(node);
    }

    static constexpr int most(int level) {
        return level > 0 ? std::min(32, STREAMEVAL_WIDE_SIZE) : STREAMEVAL_WIDE_SIZE;
    }
    // Nodes are built and joined with some room for insertions.
    static constexpr int fill(int level) { return most(level) * 3 / 4; }
    bool is_full() const { return size == most(level); }

    Wide* of(int side) { return reinterpret_cast<Wide*>(this + 1) + (side ? capacity : 0); }
    const Wide* of(int side) const { return const_cast<WideNode*>(this)->of(side); }
    double* keys() { return reinterpret_cast<double*>(of(0) + 2 * capacity); }
    const double* keys() const { return const_cast<WideNode*>(this)->keys(); }
    WideNode** children() { return reinterpret_cast<WideNode**>(keys() + capacity); }
    WideNode* const* children() const { return const_cast<WideNode*>(this)->children(); }
    std::size_t bytes() const { return bytes_for(level, capacity); }

    // Asks for every line of a leaf in a large tree before the search begins.
    void prefetch_all() const { prefetch(this, bytes_for(0, most(0))); }

    // In a leaf the place of the first score that is not below `key`.
    int find(double key) const { return count_below(keys(), size, key); }
    // In an inner node the child where it belongs.
    int child_of(double key) const {
        std::int64_t at = 0;
        const double* fences = keys();
        for (int i = 1; i < size; ++i) at += fences[i] <= key ? 1 : 0;
        return static_cast<int>(at);
    }

    // Requires size < capacity.
    void insert(int at, double key, Wide negatives, Wide positives, WideNode* child = nullptr) {
        std::copy_backward(keys() + at, keys() + size, keys() + size + 1);
        keys()[at] = key;
        for (int side = 0; side < 2; ++side) {
            std::copy_backward(of(side) + at, of(side) + size, of(side) + size + 1);
            of(side)[at] = side ? positives : negatives;
        }
        if (level > 0) {
            std::copy_backward(children() + at, children() + size, children() + size + 1);
            children()[at] = child;
        }
        ++size;
    }
    void erase(int at) {
        std::copy(keys() + at + 1, keys() + size, keys() + at);
        for (int side = 0; side < 2; ++side)
            std::copy(of(side) + at + 1, of(side) + size, of(side) + at);
        if (level > 0) std::copy(children() + at + 1, children() + size, children() + at);
        --size;
    }
    // Appends the slots [from, to) of another node, whose keys are all above.
    void append(const WideNode& other, int from, int to) {
        std::copy(other.keys() + from, other.keys() + to, keys() + size);
        for (int side = 0; side < 2; ++side)
            std::copy(other.of(side) + from, other.of(side) + to, of(side) + size);
        if (level > 0)
            std::copy(other.children() + from, other.children() + to, children() + size);
        size += to - from;
    }

  private:
    WideNode(int slots, int height)
        : capacity(static_cast<std::int16_t>(slots)), level(static_cast<std::int16_t>(height)) {}
    static std::size_t bytes_for(int level, int capacity) {
        const std::size_t slot = 2 * sizeof(Wide) + sizeof(double) + (level > 0 ? sizeof(void*) : 0);
        return sizeof(WideNode) + static_cast<std::size_t>(capacity) * slot;
    }
    std::uint64_t unused_ = 0;  // weights follow the header and must be aligned
};

static_assert(sizeof(WideNode) % alignof(Wide) == 0, "weights follow the header");

class WideTree {
  public:
    WideTree() : root_(WideNode::make(0, 1)) {}
    ~WideTree() { WideNode::destroy(root_); }
    WideTree(const WideTree&) = delete;
    WideTree& operator=(const WideTree&) = delete;

    void swap(WideTree& other) noexcept {
        std::swap(root_, other.root_);
        std::swap(totals_, other.totals_);
        std::swap(twice_u_, other.twice_u_);
        std::swap(distinct_, other.distinct_);
    }
    void clear() {
        WideTree empty;
        swap(empty);
    }

    Wide negatives() const { return totals_[0]; }
    Wide positives() const { return totals_[1]; }
    U256 twice_u() const { return twice_u_; }
    std::size_t distinct() const { return distinct_; }

    // W2 / (2 P N), rounded once, as Python divides integers; nan while a class is missing.
    double auc() const {
        if (totals_[0] == 0 || totals_[1] == 0) return std::numeric_limits<double>::quiet_NaN();
        return quotient(twice_u_, product(totals_[0], totals_[1]) << 1);
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
        if (root_->is_full()) grow();
        Path path;
        Wide under = 0;
        WideNode** slot = &root_;
        for (int level = root_->level; level > 0; --level) {
            WideNode* inner = *slot;
            int at = inner->child_of(key);
            if (level == 1 && root_->level > 2) inner->children()[at]->prefetch_all();
            if (inner->children()[at]->is_full()) {
                split(inner, at, key);
                if (inner->keys()[at + 1] <= key) ++at;
            }
            path[level] = {inner, at};
            under += sum(inner->of(1 - side), at);
            slot = &inner->children()[at];
        }
        WideNode* leaf = *slot;
        const int at = leaf->find(key);
        const bool found = at < leaf->size && leaf->keys()[at] == key;
        if (!found && leaf->size == leaf->capacity) *slot = leaf = with_room(leaf, leaf->size + 1);
        const Wide weight = gain(found ? leaf->of(side)[at] : 0);
        twice_u_ += wins_of(side, leaf, at, found, under, weight);
        if (found) {
            leaf->of(side)[at] += weight;
        } else {
            leaf->insert(at, key, side ? 0 : weight, side ? weight : 0);
            ++distinct_;
        }
        totals_[side] += weight;
        for (int level = 1; level <= root_->level; ++level)
            path[level].node->of(side)[path[level].at] += weight;
    }

    // False, and nothing changed, where so much weight never came.
    bool remove(bool positive, double key, Wide weight) {
        const int side = positive ? 1 : 0;
        Path path;
        Wide under = 0;
        WideNode* node = root_;
        for (int level = root_->level; level > 0; --level) {
            const int at = node->child_of(key);
            path[level] = {node, at};
            under += sum(node->of(1 - side), at);
            node = node->children()[at];
        }
        const int at = node->find(key);
        if (at == node->size || node->keys()[at] != key || node->of(side)[at] < weight) return false;
        twice_u_ -= wins_of(side, node, at, true, under, weight);
        totals_[side] -= weight;
        for (int level = 1; level <= root_->level; ++level)
            path[level].node->of(side)[path[level].at] -= weight;
        node->of(side)[at] -= weight;
        if (node->of(0)[at] == 0 && node->of(1)[at] == 0) {
            node->erase(at);
            --distinct_;
            // Looking at a neighbour costs a cache miss: only now and then.
            constexpr int few = WideNode::most(0) / 4;
            if (node->size <= few && node->size % std::max(1, few / 4) == 0) close_gaps(path);
        }
        return true;
    }

    // Every weight times 2^bits; the caller knows that each class stays below 2^127.
    void shift_left(int bits) {
        for (Wide& total : totals_) total <<= bits;
        twice_u_ <<= 2 * bits;
        change_weights(root_, [bits](Wide& weight) { weight <<= bits; });
    }
    // Every weight by 2^bits, which divides each of them.
    void shift_right(int bits) {
        for (Wide& total : totals_) total >>= bits;
        twice_u_ >>= 2 * bits;
        change_weights(root_, [bits](Wide& weight) { weight >>= bits; });
    }

    // Replaces the content by `count` groups, ascending: next(score, weights of both classes)
    // writes them one after another.
    template <class F>
    void build(std::size_t count, F&& next) {
        WideTree built;
        if (count > 0) {
            int level = 0;
            std::size_t room = WideNode::fill(0);
            for (; room < count; ++level) room *= WideNode::fill(1);
            WideNode* root = built.build_below(level, room, count, next);
            std::swap(built.root_, root);
            WideNode::destroy(root);
            built.distinct_ = count;
        }
        swap(built);
    }

    // Calls f(score, weight of negatives, weight of positives), ascending.
    template <class F>
    void each(F&& f) const {
        each_below(root_, f);
    }
    // Writes the groups, ascending; `scores` has distinct() places, the others twice as
    // many: the low and the high 64 bits of each weight.
    void read_groups(double* scores, std::uint64_t* positives, std::uint64_t* negatives) const {
        each([&](double score, Wide negative, Wide positive) {
            *scores++ = score;
            for (int bits = 0; bits < 128; bits += 64) {
                *positives++ = static_cast<std::uint64_t>(positive >> bits);
                *negatives++ = static_cast<std::uint64_t>(negative >> bits);
            }
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
        WideNode* root = copied_below(other.root_);
        std::swap(copied.root_, root);
        WideNode::destroy(root);
        std::copy(other.totals_, other.totals_ + 2, copied.totals_);
        copied.twice_u_ = other.twice_u_;
        copied.distinct_ = other.distinct_;
        swap(copied);
    }

    std::size_t bytes() const { return sizeof(WideTree) + bytes_below(root_); }

    // The first broken invariant in words, or nullptr.
    const char* broken() const {
        Checked sum;
        const char* what = broken_below(root_, -HUGE_VAL, HUGE_VAL, sum);
        if (what != nullptr) return what;
        if (sum.of[0] != totals_[0] || sum.of[1] != totals_[1])
            return "the totals are not those of the leaves";
        if (sum.distinct != distinct_) return "distinct is not the number of scores";
        if (!(sum.wins == twice_u_)) return "W2 is not that of the scores";
        return nullptr;
    }

  private:
    struct Step {
        WideNode* node;
        int at;
    };
    // No machine holds the scores for it: a split leaves at least two children in a node.
    static constexpr int kMaxLevel = 48;
    typedef Step Path[kMaxLevel + 1];  // by level: [1] is the parent of a leaf

    WideNode* root_;
    Wide totals_[2] = {0, 0};
    U256 twice_u_;
    std::size_t distinct_ = 0;

    // The part of W2 between `weight` of one class at a place and the whole
    // other class: 2 N_below + N_at for a positive, 2 P_above + P_at for a negative.
    U256 wins_of(int side, const WideNode* leaf, int at, bool found, Wide under, Wide weight) const {
        const Wide* others = leaf->of(1 - side);
        under += sum(others, at);
        const Wide equal = found ? others[at] : 0;
        return product(weight, side == 1 ? 2 * under + equal
                                         : 2 * (totals_[1 - side] - under) - equal);
    }

    static WideNode* with_room(WideNode* old, int size) {
        WideNode* node = WideNode::make(old->level, size);
        node->append(*old, 0, old->size);
        WideNode::free(old);
        return node;
    }

    // Puts a node with one child above a full root.
    void grow() {
        WideNode* root = WideNode::make(root_->level + 1, 1);
        root->insert(0, 0.0, totals_[0], totals_[1], root_);
        root_ = root;
    }

    // Gives the upper part of a full child to a new one; its parent has room.
    static void split(WideNode* parent, int place, double key) {
        WideNode* left = parent->children()[place];
        const int cut = cut_of(left->size, left->level > 0 ? left->child_of(key) + 1 : left->find(key));
        WideNode* right = WideNode::make(left->level, left->size - cut + 1);
        right->append(*left, cut, left->size);
        left->size = cut;
        const Wide of[2] = {sum(right->of(0), right->size), sum(right->of(1), right->size)};
        for (int side = 0; side < 2; ++side) parent->of(side)[place] -= of[side];
        parent->insert(place + 1, right->keys()[0], of[0], of[1], right);
    }

    static bool join(WideNode* parent, int left) {
        WideNode* low = parent->children()[left];
        WideNode* high = parent->children()[left + 1];
        const int size = low->size + high->size;
        if (size > WideNode::fill(low->level)) return false;
        if (size > low->capacity) parent->children()[left] = low = with_room(low, size);
        if (high->level > 0) high->keys()[0] = parent->keys()[left + 1];
        low->append(*high, 0, high->size);
        WideNode::free(high);
        for (int side = 0; side < 2; ++side) parent->of(side)[left] += parent->of(side)[left + 1];
        parent->erase(left + 1);
        return true;
    }

    // Joins what got small along the path of a removal. Only for memory and speed: a tree with
    // small or empty leaves is whole, and running out of memory is no reason to fail a removal.
    void close_gaps(Path& path) {
        for (int level = 1; level <= root_->level; ++level) {
            WideNode* parent = path[level].node;
            const int at = path[level].at;
            bool joined = false;
            try {
                joined = (at + 1 < parent->size && join(parent, at)) || (at > 0 && join(parent, at - 1));
            } catch (const std::bad_alloc&) {
            }
            if (!joined || parent->size > WideNode::most(level) / 2) break;
        }
        while (root_->level > 0 && root_->size == 1) {
            WideNode* old = root_;
            root_ = old->children()[0];
            WideNode::free(old);
        }
    }

    // A subtree of `count` groups, at most `room`, the content of full nodes of its height; and
    // counts them.
    template <class F>
    WideNode* build_below(int level, std::size_t room, std::size_t count, F& next) {
        room /= level > 0 ? WideNode::fill(1) : 1;
        const std::size_t size = level > 0 ? (count + room - 1) / room : count;
        WideNode* node = WideNode::make(level, static_cast<int>(size));
        try {
            for (std::size_t i = 0; i < size; ++i) {
                const Wide before[2] = {totals_[0], totals_[1]};
                double key = 0.0;
                WideNode* child = nullptr;
                if (level > 0) {
                    const std::size_t share = count * (i + 1) / size - count * i / size;
                    child = build_below(level - 1, room, share, next);
                    key = first_below(child);
                } else {
                    Wide weights[2];
                    next(key, weights);
                    twice_u_ += product(weights[1], 2 * totals_[0] + weights[0]);
                    for (int side = 0; side < 2; ++side) totals_[side] += weights[side];
                }
                node->insert(node->size, key, totals_[0] - before[0], totals_[1] - before[1], child);
            }
        } catch (...) {
            WideNode::destroy(node);
            throw;
        }
        return node;
    }
    static double first_below(const WideNode* node) {
        while (node->level > 0) node = node->children()[0];
        return node->keys()[0];
    }

    static WideNode* copied_below(const WideNode* node) {
        WideNode* copied = WideNode::make(node->level, node->capacity);
        copied->append(*node, 0, node->size);
        if (node->level == 0) return copied;
        try {
            for (copied->size = 0; copied->size < node->size; ++copied->size)
                copied->children()[copied->size] = copied_below(node->children()[copied->size]);
        } catch (...) {
            WideNode::destroy(copied);
            throw;
        }
        return copied;
    }

    template <class F>
    static void change_weights(WideNode* node, const F& f) {
        for (int side = 0; side < 2; ++side)
            std::for_each(node->of(side), node->of(side) + node->size, f);
        for (int i = 0; i < node->size && node->level > 0; ++i) change_weights(node->children()[i], f);
    }

    template <class F>
    static void each_below(const WideNode* node, F& f) {
        for (int at = 0; at < node->size; ++at) {
            if (node->level > 0)
                each_below(node->children()[at], f);
            else
                f(node->keys()[at], node->of(0)[at], node->of(1)[at]);
        }
    }

    static std::size_t bytes_below(const WideNode* node) {
        std::size_t bytes = node->bytes();
        for (int i = 0; i < node->size && node->level > 0; ++i) bytes += bytes_below(node->children()[i]);
        return bytes;
    }

    struct Checked {
        Wide of[2] = {0, 0};
        U256 wins;
        std::size_t distinct = 0;
    };
    // Adds what lies below a node to a sum of all scores before it.
    static const char* broken_below(const WideNode* node, double low, double high, Checked& sum) {
        if (node->size > node->capacity || node->capacity > WideNode::most(node->level))
            return "a node is over its capacity";
        if (node->level > 0 && node->size < 1) return "an inner node has no child";
        for (int at = 0; at < node->size; ++at) {
            const double key = node->keys()[at];
            const Wide before[2] = {sum.of[0], sum.of[1]};
            const Wide negative = node->of(0)[at], positive = node->of(1)[at];
            if (node->level > 0) {
                const WideNode* child = node->children()[at];
                const double from = at == 0 ? low : key;
                const double to = at + 1 == node->size ? high : node->keys()[at + 1];
                if (!(from <= to)) return "the fences do not ascend";
                if (child->level != node->level - 1) return "a leaf is not at the bottom";
                const char* what = broken_below(child, from, to, sum);
                if (what != nullptr) return what;
            } else {
                if (!(key - key == 0.0)) return "a score is not finite";
                if (at > 0 && !(node->keys()[at - 1] < key)) return "the scores do not ascend";
                if (!(low <= key && key < high)) return "a score is outside its leaf's fences";
                if (negative == 0 && positive == 0) return "a score weighs nothing";
                sum.wins += product(positive, 2 * sum.of[0] + negative);
                sum.of[0] += negative;
                sum.of[1] += positive;
                ++sum.distinct;
            }
            if (before[0] + negative != sum.of[0] || before[1] + positive != sum.of[1])
                return "a child's weights are stale";
        }
        return nullptr;
    }
};

}  // namespace streameval
