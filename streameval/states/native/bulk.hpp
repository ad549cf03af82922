// Whole columns at once: a tree from sorted scores, and a tree from two trees.
//
// Both are one merge of two ascending sources of groups. A source is read and a
// new tree written; what is much smaller than a tree is inserted instead.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tree_builder.hpp"

namespace streameval {

// Ascending scores of one class, each of its own weight or of weight 1.
struct Run {
    const double* scores;
    const std::int64_t* weights;  // nullptr: every event weighs 1
    std::ptrdiff_t size;

    std::uint64_t weight(std::ptrdiff_t at) const {
        return weights == nullptr ? 1 : static_cast<std::uint64_t>(weights[at]);
    }
};

// A source hands out ascending distinct groups a block at a time: `keys` and
// `weights` from `at` to `size`; fill() gets the next block, false at the end.

template <class Pair>
class RunSource {
  public:
    std::int64_t keys[kBlock];
    Pair weights[kBlock];
    int at = 0;
    int size = 0;

    RunSource(const Run& run, int side) : run_(run), side_(side) {}

    bool fill() {
        if (at < size) return true;
        if (next_ == run_.size) return false;
        at = 0;
        const int count =
            static_cast<int>(std::min<std::ptrdiff_t>(kBlock, run_.size - next_));
        std::memcpy(keys, run_.scores + next_, static_cast<std::size_t>(count) * sizeof(double));
        std::int64_t ties = 0;
        for (int n = 0; n < count; ++n) keys[n] = ordered(keys[n]);
        for (int n = 1; n < count; ++n) ties += keys[n] == keys[n - 1] ? 1 : 0;
        // The first score after the block may still belong to its last group.
        if (next_ + count < run_.size)
            ties += run_.scores[next_ + count] == run_.scores[next_ + count - 1] ? 1 : 0;
        if (ties == 0) {
            for (int n = 0; n < count; ++n) weights[n] = pair(run_.weight(next_ + n));
            next_ += count;
            size = count;
        } else {
            fill_tied();
        }
        return true;
    }

  private:
    Run run_;
    int side_;
    std::ptrdiff_t next_ = 0;

    Pair pair(std::uint64_t weight) const {
        return side_ == 0 ? Pair::of(weight, 0) : Pair::of(0, weight);
    }

    void fill_tied() {
        std::ptrdiff_t next = next_;
        size = 0;
        while (next < run_.size && size < kBlock) {
            const double score = run_.scores[next];
            std::uint64_t weight = 0;
            for (; next < run_.size && run_.scores[next] == score; ++next)
                weight += run_.weight(next);
            std::int64_t bits;
            std::memcpy(&bits, &score, sizeof bits);
            keys[size] = ordered(bits);
            weights[size] = pair(weight);
            ++size;
        }
        next_ = next;
    }
};

template <class Pair>
class TreeSource {
  public:
    std::int64_t keys[kBlock];
    Pair weights[kBlock];
    int at = 0;
    int size = 0;

    explicit TreeSource(const ScoreTree& tree) : leaves_(tree.leaves()) {}

    bool fill() {
        while (at == size) {
            if (next_ == leaves_.size()) return false;
            const Leaf* leaf = leaves_[next_++];
            if (next_ < leaves_.size()) leaves_[next_]->prefetch_all();
            at = 0;
            size = leaf->size();
            std::memcpy(keys, leaf->keys(), static_cast<std::size_t>(size) * sizeof(double));
            for (int n = 0; n < size; ++n) keys[n] = ordered(keys[n]);
            leaf->read_pairs([this](int n, std::uint64_t negatives, std::uint64_t positives) {
                weights[n] = Pair::of(negatives, positives);
            });
        }
        return true;
    }

  private:
    std::vector<const Leaf*> leaves_;
    std::size_t next_ = 0;
};

// Puts the groups of both sources into `tree`, whose content is replaced.
template <class Pair, class Source>
void merge_sources(ScoreTree& tree, Source& a, Source& b) {
    TreeBuilder<Pair> out;
    while (a.fill() && b.fill()) {
        int at_a = a.at, at_b = b.at, size = out.size;
        const int steps = std::min({a.size - at_a, b.size - at_b, kBlock - size});
        // No branch on the comparison: which source is next is a coin toss.
        for (int n = 0; n < steps; ++n) {
            const std::int64_t key_a = a.keys[at_a], key_b = b.keys[at_b];
            const int take_a = key_a <= key_b, take_b = key_b <= key_a;
            out.keys[size] = key_a < key_b ? key_a : key_b;
            out.weights[size] = a.weights[at_a].masked(0 - static_cast<std::uint64_t>(take_a)) +
                                b.weights[at_b].masked(0 - static_cast<std::uint64_t>(take_b));
            at_a += take_a;
            at_b += take_b;
            ++size;
        }
        a.at = at_a;
        b.at = at_b;
        out.size = size;
        if (size >= out.target()) out.flush();
    }
    for (Source* rest : {&a, &b}) {
        while (rest->fill()) {
            const int steps = std::min(rest->size - rest->at, kBlock - out.size);
            std::copy_n(rest->keys + rest->at, steps, out.keys + out.size);
            std::copy_n(rest->weights + rest->at, steps, out.weights + out.size);
            rest->at += steps;
            out.size += steps;
            if (out.size >= out.target()) out.flush();
        }
    }
    out.finish(tree);
}

template <class Pair>
void build_as(ScoreTree& tree, const Run& negatives, const Run& positives) {
    RunSource<Pair> low(negatives, 0), high(positives, 1);
    merge_sources<Pair>(tree, low, high);
}

// The events of two ascending runs; each class weighs less than 2^63.
inline void build(ScoreTree& tree, const Run& negatives, const Run& positives) {
    // So few events cannot fill 32 bits at any score.
    const bool is_short = negatives.weights == nullptr && positives.weights == nullptr &&
                          std::max(negatives.size, positives.size) <= INT32_MAX;
    if (is_short)
        build_as<ShortPair>(tree, negatives, positives);
    else
        build_as<LongPair>(tree, negatives, positives);
}

template <class Pair>
void merge_as(ScoreTree& merged, const ScoreTree& one, const ScoreTree& two) {
    TreeSource<Pair> a(one), b(two);
    merge_sources<Pair>(merged, a, b);
}

// The content of both trees, which are only read.
inline void merge_trees(ScoreTree& merged, const ScoreTree& one, const ScoreTree& two) {
    // Weights of 16 bits each: their sums stay within 32.
    if (one.is_narrow() && two.is_narrow())
        merge_as<ShortPair>(merged, one, two);
    else
        merge_as<LongPair>(merged, one, two);
}

// Sorted groups as arrays.
inline void build_from_groups(ScoreTree& tree, const double* scores, const std::int64_t* positives,
                              const std::int64_t* negatives, std::ptrdiff_t count) {
    TreeBuilder<LongPair> out;
    for (std::ptrdiff_t n = 0; n < count; ++n) {
        std::int64_t bits;
        std::memcpy(&bits, scores + n, sizeof bits);
        out.keys[out.size] = ordered(bits);
        out.weights[out.size] = LongPair::of(static_cast<std::uint64_t>(negatives[n]),
                                             static_cast<std::uint64_t>(positives[n]));
        if (++out.size == out.target()) out.flush();
    }
    out.finish(tree);
}

// Puts the scores of each class into a run of their own, -0.0 as 0.0. Returns
// the position of the first score that is not finite, or -1.
inline std::ptrdiff_t split_classes(const double* scores, const std::uint8_t* positive,
                                    std::ptrdiff_t count, double* negatives, double* positives) {
    double* next[2] = {negatives, positives};
    double broken = 0.0;
    for (std::ptrdiff_t n = 0; n < count; ++n) {
        const double score = scores[n] + 0.0;
        broken += score - score;  // nan once a score is nan or infinite, 0 until then
        const int side = positive[n] != 0;
        *next[side] = score;
        next[side] += 1;
    }
    if (broken == 0.0) return -1;
    return std::find_if_not(scores, scores + count, [](double x) { return std::isfinite(x); }) -
           scores;
}

// Adds what is much smaller than the tree one by one. When memory runs out all
// of it is taken back, which needs none.

inline void insert_run(ScoreTree& tree, bool positive, const Run& run) {
    std::ptrdiff_t at = 0;
    try {
        for (; at < run.size; ++at) tree.insert(positive, run.scores[at], run.weight(at));
    } catch (...) {
        while (at-- > 0) tree.remove(positive, run.scores[at], run.weight(at));
        throw;
    }
}

inline void insert_runs(ScoreTree& tree, const Run& negatives, const Run& positives) {
    insert_run(tree, false, negatives);
    try {
        insert_run(tree, true, positives);
    } catch (...) {
        for (std::ptrdiff_t at = negatives.size; at-- > 0;)
            tree.remove(false, negatives.scores[at], negatives.weight(at));
        throw;
    }
}

inline void insert_groups(ScoreTree& tree, const ScoreTree& small) {
    // One run of each class, so that there is one way to take back.
    const std::size_t room = small.distinct();
    std::vector<double> scores(room);
    std::vector<std::int64_t> weights[2] = {std::vector<std::int64_t>(room),
                                            std::vector<std::int64_t>(room)};
    small.read_groups(scores.data(), weights[1].data(), weights[0].data());
    std::vector<double> kept[2];
    for (int side = 0; side < 2; ++side) {
        std::vector<std::int64_t>& column = weights[side];
        std::size_t size = 0;
        for (std::size_t n = 0; n < room; ++n) {
            if (column[n] == 0) continue;
            kept[side].push_back(scores[n]);
            column[size++] = column[n];
        }
    }
    insert_runs(tree,
                {kept[0].data(), weights[0].data(), static_cast<std::ptrdiff_t>(kept[0].size())},
                {kept[1].data(), weights[1].data(), static_cast<std::ptrdiff_t>(kept[1].size())});
}

}  // namespace streameval
