// A leaf: up to 128 ascending distinct scores, each with the weight of its
// negatives and of its positives.
//
// One block holds header, scores and the two columns of weights. Weights of 64 bits
// take 1, 2, 4 or 8 bytes, chosen per leaf by its largest one, because almost
// every weight of almost every stream is 1: a slot costs 10 bytes, not 24. Weights of
// 128 bits take 16.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "exact128.hpp"
#include "leaf_pool.hpp"

namespace streameval {

// W2 has twice the digits of a weight.
template <class Weight>
using Pairs = decltype(product(Weight(), Weight()));

// What a node knows of the events below it.
template <class Weight>
struct BasicTotals {
    Weight of[2] = {0, 0};  // [0] weight of the negatives, [1] of the positives

    BasicTotals& operator+=(const BasicTotals& other) {
        of[0] += other.of[0];
        of[1] += other.of[1];
        return *this;
    }
    BasicTotals& operator-=(const BasicTotals& other) {
        of[0] -= other.of[0];
        of[1] -= other.of[1];
        return *this;
    }
    bool operator==(const BasicTotals& other) const {
        return of[0] == other.of[0] && of[1] == other.of[1];
    }
};

// The same of a range of scores, with the W2 of the pairs inside it.
template <class Weight>
struct BasicPart {
    BasicTotals<Weight> totals;
    Pairs<Weight> wins = Pairs<Weight>();

    // Appends the range right above.
    BasicPart& operator+=(const BasicPart& above) {
        wins += above.wins;
        wins += product(2 * totals.of[0], above.totals.of[1]);
        totals += above.totals;
        return *this;
    }
};

// Asks for every line of a node before the search in it begins. In a tree too large for
// the caches this halves an insertion; in a small one it would cost a tenth.
inline void prefetch(const void* node, std::size_t bytes) {
#if defined(__GNUC__)
    const char* start = static_cast<const char*>(node);
    for (const char* line = start; line < start + bytes; line += 64) __builtin_prefetch(line);
#else
    (void)node;
    (void)bytes;
#endif
}

// How many of `count` ascending keys are below `key`. Counted, not searched: the
// compiler makes it a few vector comparisons, and there is no branch to mispredict.
inline int count_below(const double* keys, int count, double key) {
    std::int64_t below = 0;
    for (int at = 0; at < count; ++at) below += keys[at] < key ? 1 : 0;
    return static_cast<int>(below);
}

// Where a full node is cut. An insertion at its end is the sign of an ascending
// stream, which would leave every node half empty behind it; likewise in front.
inline int cut_of(int size, int insertion) {
    const int few = size < 16 ? 1 : size / 16;
    if (insertion == size) return size - few;
    if (insertion == 0) return few;
    return size / 2;
}

template <class Pointer>
using Element = std::remove_pointer_t<Pointer>;

// As aligned as the weights that follow it.
template <class Weight>
class alignas(Weight) BasicLeaf {
    std::uint16_t size_;
    std::uint16_t capacity_;
    std::uint16_t shift_;
    std::uint16_t unused_;

    static std::size_t bytes_for(int capacity, int shift) {
        const std::size_t slots = static_cast<std::size_t>(capacity);
        return sizeof(BasicLeaf) + slots * sizeof(double) + ((2 * slots) << shift);
    }
    static int kind_of(int capacity, int shift) {
        const int room = capacity >= kStep ? 1 + capacity / kStep : capacity / 16;
        return 4 * room + shift % 4;
    }
    template <class Stored>
    Stored* column(int side) {
        return reinterpret_cast<Stored*>(keys() + capacity_) + (side ? capacity_ : 0);
    }
    // Calls f with the column of one class in its own type.
    template <class F>
    auto visit(int side, F&& f) {
        if constexpr (sizeof(Weight) > 8) {
            return f(column<Weight>(side));
        } else {
            switch (shift_) {
                case 0: return f(column<std::uint8_t>(side));
                case 1: return f(column<std::uint16_t>(side));
                case 2: return f(column<std::uint32_t>(side));
                default: return f(column<std::uint64_t>(side));
            }
        }
    }
    template <class F>
    auto visit(int side, F&& f) const {
        return const_cast<BasicLeaf*>(this)->visit(side, [&f](const auto* w) { return f(w); });
    }

  public:
    static constexpr int kMaxSize = sizeof(Weight) > 8 ? 64 : 128;
    static constexpr int kStep = kMaxSize / 4;  // capacities above it are its multiples

    int size() const { return size_; }
    int capacity() const { return capacity_; }
    int shift() const { return shift_; }  // a weight takes 1 << shift bytes
    double* keys() { return reinterpret_cast<double*>(this + 1); }
    const double* keys() const { return reinterpret_cast<const double*>(this + 1); }

    static int shift_for(Weight weight) {
        return sizeof(Weight) > 8     ? 4
               : weight <= UINT8_MAX  ? 0
               : weight <= UINT16_MAX ? 1
               : weight <= UINT32_MAX ? 2
                                      : 3;
    }
    // Small indices (one per slice, perhaps thousands) start with 8 slots.
    static int capacity_for(int size) {
        if (size > kStep / 2) return (size + kStep - 1) / kStep * kStep;
        int capacity = 8;
        while (capacity < size) capacity *= 2;
        return capacity;
    }

    static BasicLeaf* make(LeafPool& pool, int capacity, int shift) {
        void* block = pool.take(bytes_for(capacity, shift), kind_of(capacity, shift));
        BasicLeaf* leaf = new (block) BasicLeaf;
        leaf->size_ = 0;
        leaf->capacity_ = static_cast<std::uint16_t>(capacity);
        leaf->shift_ = static_cast<std::uint16_t>(shift);
        return leaf;
    }
    static void destroy(LeafPool& pool, BasicLeaf* leaf) {
        pool.give(leaf, bytes_for(leaf->capacity_, leaf->shift_),
                  kind_of(leaf->capacity_, leaf->shift_));
    }

    // A copy of the slots [from, to) with the given room.
    BasicLeaf* copied(LeafPool& pool, int from, int to, int capacity, int shift) const {
        BasicLeaf* leaf = make(pool, capacity, shift);
        leaf->append(*this, from, to);
        return leaf;
    }

    // The place of the first score that is not below `key`. Every 16th score tells
    // which 16 to look at; those loads do not wait for one another, as the steps of
    // a binary search would, so a cold leaf costs little more than one miss.
    int find(double key) const {
        const double* k = keys();
        int from = 0;
        for (int at = 15; at < size_; at += 16) from += k[at] < key ? 16 : 0;
        const int left = size_ - from;
        if (left >= 16) return from + count_below(k + from, 16, key);
        return from + count_below(k + from, left, key);
    }

    Weight weight(int side, int at) const {
        return visit(side, [at](const auto* w) { return static_cast<Weight>(w[at]); });
    }

    // Adds to a weight, which fits; or takes from it, by the complement.
    void add(int side, int at, Weight weight) {
        visit(side, [at, weight](auto* w) {
            w[at] = static_cast<Element<decltype(w)>>(w[at] + weight);
        });
    }

    // Weight of one class in the slots [0, end).
    Weight sum(int side, int end) const {
        return visit(side, [end](const auto* w) {
            // Of at most 16 bits they stay within 32, which vectorises better.
            std::conditional_t<sizeof(*w) <= 2, std::uint32_t, Weight> total = 0;
            for (int at = 0; at < end; ++at) total += w[at];
            return static_cast<Weight>(total);
        });
    }

    // The slots [0, end), W2 included.
    BasicPart<Weight> part(int end) const {
        BasicPart<Weight> part;
        visit(0, [&](const auto* n) {
            const auto* p = n + capacity_;
            // 128 products of 2^16 by 2^24 stay within 64 bits.
            std::conditional_t<sizeof(*n) <= 2, std::uint64_t, Pairs<Weight>> won{};
            Weight negatives = 0, positives = 0;
            for (int at = 0; at < end; ++at) {
                const Weight here = n[at], own = p[at], beaten = 2 * negatives + here;
                if constexpr (sizeof(*n) <= 2)
                    won += own * beaten;
                else
                    won += product(own, beaten);
                negatives += here;
                positives += own;
            }
            part = {{{negatives, positives}}, Pairs<Weight>{won}};
        });
        return part;
    }

    // Requires size < capacity and a weight that fits.
    void insert(int at, double key, int side, Weight weight) {
        const std::size_t tail = static_cast<std::size_t>(size_ - at);
        double* k = keys();
        std::memmove(k + at + 1, k + at, tail * sizeof(double));
        k[at] = key;
        for (int s = 0; s < 2; ++s) {
            visit(s, [=](auto* w) {
                std::memmove(w + at + 1, w + at, tail * sizeof(*w));
                w[at] = static_cast<Element<decltype(w)>>(s == side ? weight : 0);
            });
        }
        ++size_;
    }

    void erase(int at) {
        const std::size_t tail = static_cast<std::size_t>(size_ - at - 1);
        double* k = keys();
        std::memmove(k + at, k + at + 1, tail * sizeof(double));
        for (int s = 0; s < 2; ++s)
            visit(s, [=](auto* w) { std::memmove(w + at, w + at + 1, tail * sizeof(*w)); });
        --size_;
    }

    // Appends the slots [from, to) of another leaf, whose scores are all above.
    void append(const BasicLeaf& other, int from, int to) {
        other.visit(0, [&](const auto* w) {
            assign(to - from, other.keys() + from, w + from, w + other.capacity_ + from);
        });
    }

    // Appends slots from columns.
    template <class Stored>
    void assign(int count, const double* from, const Stored* negatives, const Stored* positives) {
        std::memcpy(keys() + size_, from, static_cast<std::size_t>(count) * sizeof(double));
        for (int side = 0; side < 2; ++side)
            visit(side, [=, source = side == 0 ? negatives : positives](auto* w) {
                w += size_;  // not in the loop: a weight written might be size_
                for (int at = 0; at < count; ++at) w[at] = static_cast<Element<decltype(w)>>(source[at]);
            });
        size_ = static_cast<std::uint16_t>(size_ + count);
    }
    // Calls f with each weight, which it may change.
    template <class F>
    void each_weight(F&& f) {
        for (int side = 0; side < 2; ++side)
            visit(side, [&](auto* w) { std::for_each(w, w + size_, f); });
    }
    // Calls f(place, weight of negatives, weight of positives) for each score.
    template <class F>
    void read_pairs(F&& f) const {
        visit(0, [&](const auto* negatives) {
            const auto* positives = negatives + capacity_;
            for (int at = 0; at < size_; ++at) f(at, negatives[at], positives[at]);
        });
    }
    // Writes the slots [from, end) of one class.
    template <class Integer>
    void read(int side, int from, int end, Integer* to) const {
        visit(side, [=](const auto* w) {
            const auto* first = w + from;
            for (int at = 0, count = end - from; at < count; ++at)
                to[at] = static_cast<Integer>(first[at]);
        });
    }

    void prefetch_all() const { prefetch(this, bytes_for(capacity_, shift_)); }
};

using Totals = BasicTotals<std::uint64_t>;
using Part = BasicPart<std::uint64_t>;
using Leaf = BasicLeaf<std::uint64_t>;

static_assert(Leaf::kMaxSize == 128 && LeafPool::kKinds == 24 + 2,
              "a kind for each capacity (8, 16, 32, 64, 96, 128) and width, and for inner nodes");
static_assert(sizeof(Leaf) == 8, "scores follow the header and must be aligned");

}  // namespace streameval
