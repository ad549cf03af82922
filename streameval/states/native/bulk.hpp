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

#include "coarse_score.hpp"
#include "tree_builder.hpp"

namespace streameval {

// Ascending scores of one class, each of its own weight or of weight 1.
struct Run {
    const double* scores;
    const std::int64_t* weights;  // nullptr: every event weighs 1
    std::ptrdiff_t size;
};

// A source hands out ascending distinct groups: of `block` those from `at` on; fill() gets the
// next block once it is used up, and is false at the end.

class RunSource {
  public:
    GroupBlock block;
    int at = 0;

    RunSource(const Run& run, int side, int level) : run_(run), side_(side), level_(level) {}

    void rewind() {
        next_ = 0;
        at = block.size = 0;
    }
    bool fill() {
        if (at < block.size) return true;
        if (next_ == run_.size) return false;
        int size = at = 0;
        std::uint64_t weight = 0;
        std::ptrdiff_t next = next_;  // a local: a key written might be a member
        std::int64_t key = key_of(next);
        // No branch on a tie: whether the next score is the same may be a coin toss.
        for (const Run run = run_; next < run.size && size < GroupBlock::kSize; ++next) {
            weight += run.weights == nullptr ? 1 : static_cast<std::uint64_t>(run.weights[next]);
            block.keys[size] = key;
            block.weights[size].of[side_] = weight;
            const std::int64_t after = next + 1 < run.size ? key_of(next + 1) : ~key;
            const bool last = after != key;
            size += last;
            weight = last ? 0 : weight;
            key = after;
        }
        next_ = next;
        block.size = size;
        return true;
    }

  private:
    const Run run_;
    const int side_, level_;
    std::ptrdiff_t next_ = 0;

    std::int64_t key_of(std::ptrdiff_t n) const {
        return ordered(bits_of(coarse(run_.scores[n], level_)));
    }
};

class TreeSource {
  public:
    GroupBlock block;
    int at = 0;

    explicit TreeSource(const ScoreTree& tree) : leaves_(tree.leaves()) {}

    void rewind() {
        next_ = 0;
        at = block.size = 0;
    }
    bool fill() {
        while (at == block.size) {
            if (next_ == leaves_.size()) return false;
            const Leaf* leaf = leaves_[next_++];
            if (next_ < leaves_.size()) leaves_[next_]->prefetch_all();
            at = 0;
            block.size = leaf->size();
            leaf->read_pairs([&](int n, std::uint64_t negatives, std::uint64_t positives) {
                block.weights[n] = {{negatives, positives}};
            });
            for (int n = 0; n < block.size; ++n) block.keys[n] = ordered(bits_of(leaf->keys()[n]));
        }
        return true;
    }

  private:
    const std::vector<const Leaf*> leaves_;
    std::size_t next_ = 0;
};

// Puts the groups of both sources into `tree`, whose content is replaced.
template <class Source>
void merge_sources(ScoreTree& tree, Source& a, Source& b) {
    TreeBuilder out;
    GroupBlock& to = out.next;
    while (a.fill() && b.fill()) {
        std::ptrdiff_t at_a = a.at, at_b = b.at, size = to.size;
        const std::ptrdiff_t end =
            size + std::min({a.block.size - a.at, b.block.size - b.at, GroupBlock::kSize - to.size});
        // No branch on the comparison: which source is next is a coin toss.
        for (; size < end; ++size) {
            const std::int64_t key_a = a.block.keys[at_a], key_b = b.block.keys[at_b];
            const std::int64_t take_a = key_a <= key_b, take_b = key_b <= key_a;
            const std::uint64_t mask_a = 0 - static_cast<std::uint64_t>(take_a);
            const std::uint64_t mask_b = 0 - static_cast<std::uint64_t>(take_b);
            to.keys[size] = key_a < key_b ? key_a : key_b;
            for (int side = 0; side < 2; ++side)
                to.weights[size].of[side] = (a.block.weights[at_a].of[side] & mask_a) +
                                            (b.block.weights[at_b].of[side] & mask_b);
            at_a += take_a;
            at_b += take_b;
        }
        a.at = static_cast<int>(at_a);
        b.at = static_cast<int>(at_b);
        to.size = static_cast<int>(size);
        if (to.size >= out.target()) out.flush();
    }
    for (Source* rest : {&a, &b}) {
        while (rest->fill()) {
            const int steps = std::min(rest->block.size - rest->at, GroupBlock::kSize - to.size);
            std::copy_n(rest->block.keys + rest->at, steps, to.keys + to.size);
            std::copy_n(rest->block.weights + rest->at, steps, to.weights + to.size);
            rest->at += steps;
            to.size += steps;
            if (to.size >= out.target()) out.flush();
        }
    }
    out.finish(tree);
}

// Calls f(class, score, weight) for each weight above 0 of a source.
template <class Source, class F>
void each_weight(Source& source, F&& f) {
    for (source.rewind(); source.fill(); ++source.at)
        for (int side = 0; side < 2; ++side) {
            const std::uint64_t weight = source.block.weights[source.at].of[side];
            if (weight != 0) f(side == 1, score_of(ordered(source.block.keys[source.at])), weight);
        }
}

// Inserts the groups of sources one by one. When memory runs out it takes back what it has
// inserted, which needs none.
template <class... Source>
void insert_groups(ScoreTree& tree, Source&... sources) {
    std::size_t inserted = 0;
    const auto insert = [&](bool positive, double score, std::uint64_t weight) {
        tree.insert(positive, score, weight);
        ++inserted;
    };
    const auto take_back = [&](bool positive, double score, std::uint64_t weight) {
        if (inserted == 0) return;
        tree.remove(positive, score, weight);
        --inserted;
    };
    try {
        (each_weight(sources, insert), ...);
    } catch (...) {
        (each_weight(sources, take_back), ...);
        throw;
    }
}

// Whether inserting so many groups one by one beats rewriting a tree of so many.
inline bool are_few(std::size_t groups, const ScoreTree& tree) { return groups * 32 < tree.distinct(); }

// Adds the content of another tree, which is only read.
inline void absorb(ScoreTree& tree, const ScoreTree& other) {
    TreeSource more(other);
    if (are_few(other.distinct(), tree)) {
        insert_groups(tree, more);
    } else {
        TreeSource own(tree);
        merge_sources(tree, own, more);
    }
}

// Takes out the content of a tree that was added, its scores as cells of a level.
inline void subtract(ScoreTree& tree, const ScoreTree& other, int level) {
    TreeSource less(other);
    each_weight(less, [&](bool positive, double score, std::uint64_t weight) {
        tree.remove(positive, coarse(score, level), weight);
    });
}

// Adds the events of two ascending runs, their scores as cells of a level.
inline void add_runs(ScoreTree& tree, const Run& negatives, const Run& positives, int level) {
    RunSource low(negatives, 0, level), high(positives, 1, level);
    if (are_few(static_cast<std::size_t>(negatives.size + positives.size), tree)) {
        insert_groups(tree, low, high);
        return;
    }
    ScoreTree fresh;
    merge_sources(fresh, low, high);
    if (tree.distinct() == 0)
        tree.swap(fresh);
    else
        absorb(tree, fresh);
}

// Replaces the content by sorted groups.
inline void build_from_groups(ScoreTree& tree, const double* scores, const std::int64_t* positives,
                              const std::int64_t* negatives, std::ptrdiff_t count) {
    TreeBuilder out;
    for (std::ptrdiff_t n = 0; n < count; ++n)
        out.add(scores[n], static_cast<std::uint64_t>(negatives[n]),
                static_cast<std::uint64_t>(positives[n]));
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
        *next[positive[n] != 0]++ = score;
    }
    if (broken == 0.0) return -1;
    return std::find_if_not(scores, scores + count, [](double x) { return std::isfinite(x); }) -
           scores;
}

}  // namespace streameval
