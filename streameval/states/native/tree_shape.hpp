// How a tree of scores splits, joins, copies, reads and checks its nodes.
//
// Each step allocates before it changes anything and leaves a whole tree, so
// that an insertion takes one step and searches again: a split happens once in
// a hundred insertions and the second search costs nothing next to it. A block taken
// before memory ran out goes with the pool.
#pragma once

#include <algorithm>
#include <cmath>
#include <new>

#include "score_tree.hpp"

namespace streameval {

template <class Weight>
inline void BasicTree<Weight>::make_room(Path& path, Leaf* leaf, int at) {
    const int size = leaf->size(), shift = leaf->shift();
    if (size < Leaf::kMaxSize) {
        replace_leaf(path, leaf, Leaf::capacity_for(size + 1), shift);
        return;
    }
    int level = 1;
    while (level <= height_ && path[level].node->size == Inner::kMaxSize) ++level;
    if (level > height_) {
        Inner* root = Inner::make(pool_, keeps_delong_);
        root->insert(0, 0.0, totals_, root_, twice_u_);
        root_ = root;
        ++height_;
        return;
    }
    Inner* parent = path[level].node;
    const int place = path[level].at;
    Part low, high;
    if (level == 1) {
        const int cut = cut_of(size, at);
        Leaf* right = leaf->copied(pool_, cut, size, Leaf::capacity_for(size - cut + 1), shift);
        Leaf* left = leaf->copied(pool_, 0, cut, Leaf::capacity_for(cut + 1), shift);
        low = left->part(cut);
        high = right->part(size - cut);
        parent->children[place] = left;
        parent->split(place, right->keys()[0], high.totals, right);
        Leaf::destroy(pool_, leaf);
    } else {
        Inner* left = path[level - 1].node;
        const int cut = cut_of(left->size, path[level - 1].at + 1);
        Inner* right = Inner::make(pool_, keeps_delong_);
        right->append(*left, cut);
        left->size = cut;
        if (keeps_delong_) {
            low = left->part(cut);
            high = right->part(right->size);
        }
        parent->split(place, right->fences[0], right->before(right->size), right);
    }
    if (keeps_delong_) {
        parent->wins[place] = low.wins;
        parent->wins[place + 1] = high.wins;
    }
}

// Joins a child with the next one where both are small.
template <class Weight>
inline bool BasicTree<Weight>::join(Inner* parent, int left, int level) {
    void*& child = parent->children[left];
    if (level == 0) {
        Leaf *low = static_cast<Leaf*>(child), *high = static_cast<Leaf*>(parent->children[left + 1]);
        const int size = low->size() + high->size();
        if (size > Leaf::kMaxSize * 3 / 4) return false;
        Leaf* joined = low->copied(pool_, 0, low->size(), Leaf::capacity_for(size + 1),
                                   std::max(low->shift(), high->shift()));
        joined->append(*high, 0, high->size());
        child = joined;
        Leaf::destroy(pool_, low);
        Leaf::destroy(pool_, high);
    } else {
        Inner *low = static_cast<Inner*>(child), *high = static_cast<Inner*>(parent->children[left + 1]);
        if (low->size + high->size > Inner::kMaxSize * 3 / 4) return false;
        high->fences[0] = parent->fences[left + 1];
        low->append(*high, 0);
        Inner::destroy(pool_, high);
    }
    parent->join(left);
    return true;
}

// Joins what got small along the path of a removal. Only for memory and speed:
// a tree with small or empty leaves is whole, so nothing has to be joined here,
// and running out of memory is no reason to fail a removal.
template <class Weight>
inline void BasicTree<Weight>::close_gaps(Path& path) {
    for (int level = 1; level <= height_; ++level) {
        Inner* parent = path[level].node;
        const int at = path[level].at;
        bool joined = false;
        try {
            joined = (at + 1 < parent->size && join(parent, at, level - 1)) ||
                     (at > 0 && join(parent, at - 1, level - 1));
        } catch (const std::bad_alloc&) {
        }
        if (!joined || parent->size > Inner::kMaxSize / 2) break;
    }
    while (height_ > 0 && static_cast<Inner*>(root_)->size == 1) {
        Inner* old = static_cast<Inner*>(root_);
        root_ = old->children[0];
        --height_;
        Inner::destroy(pool_, old);
    }
}

template <class Weight>
inline void* BasicTree<Weight>::copied_below(LeafPool& pool, const void* node, int level) {
    if (level == 0) {
        const Leaf* leaf = static_cast<const Leaf*>(node);
        return leaf->copied(pool, 0, leaf->size(), leaf->capacity(), leaf->shift());
    }
    const Inner* inner = static_cast<const Inner*>(node);
    Inner* copied = Inner::make(pool, false);
    for (int i = 0; i < inner->size; ++i)
        copied->insert(i, inner->fences[i], inner->totals[i],
                       copied_below(pool, inner->children[i], level - 1));
    return copied;
}

template <class Weight>
template <class F>
void BasicTree<Weight>::change_below(void* node, int level, const F& f) {
    if (level == 0) return static_cast<Leaf*>(node)->each_weight(f);
    Inner* inner = static_cast<Inner*>(node);
    for (int i = 0; i < inner->size; ++i) {
        std::for_each(inner->totals[i].of, inner->totals[i].of + 2, f);
        change_below(inner->children[i], level - 1, f);
    }
}

// False once f was. Behind the first child every score is on the wanted side of the score.
template <class Weight>
template <class F>
bool BasicTree<Weight>::each_leaf(const void* node, int level, double score, bool down, F& f) {
    if (level == 0) return f(static_cast<const Leaf*>(node));
    const Inner* inner = static_cast<const Inner*>(node);
    for (int i = inner->child_of(score); i >= 0 && i < inner->size; i += down ? -1 : 1)
        if (!each_leaf(inner->children[i], level - 1, score, down, f)) return false;
    return true;
}

template <class Weight>
inline void BasicTree<Weight>::read_groups(double score, bool down, Room& room) const {
    bool first = true;  // the scores of the leaves that follow are all beyond `score`
    each_leaf_from(score, down, [&](const Leaf* leaf) {
        int from = down ? leaf->size() : 0;
        if (first) {
            from = leaf->find(score);
            if (!down && from < leaf->size() && leaf->keys()[from] == score) ++from;
            first = false;
        }
        const std::size_t here = static_cast<std::size_t>(down ? from : leaf->size() - from);
        const std::size_t count = std::min(room.end - room.from, here);
        if (down) from -= static_cast<int>(count);
        const std::size_t to = down ? room.end -= count : room.from;
        if (!down) room.from += count;
        const int end = from + static_cast<int>(count);
        std::copy(leaf->keys() + from, leaf->keys() + end, room.scores + to);
        leaf->read(0, from, end, room.negatives + to);
        leaf->read(1, from, end, room.positives + to);
        return room.from < room.end;
    });
}

// What lies before a place, counted from scratch.
template <class Weight>
struct BasicTree<Weight>::Checked {
    Part part;
    std::size_t distinct = 0;
    DelongSums delong;
};

template <class Weight>
inline const char* BasicTree<Weight>::broken_below(const void* node, int level, double low, double high,
                                                   Checked& sum) const {
    if (level == 0) {
        const Leaf* leaf = static_cast<const Leaf*>(node);
        if (leaf->size() > leaf->capacity() || leaf->capacity() > Leaf::kMaxSize)
            return "a leaf is over its capacity";
        for (int at = 0; at < leaf->size(); ++at) {
            const double key = leaf->keys()[at];
            if (!(key - key == 0.0)) return "a score is not finite";
            if (at > 0 && !(leaf->keys()[at - 1] < key)) return "the scores do not ascend";
            if (!(low <= key && key < high)) return "a score is outside its leaf's fences";
            const Weight n = leaf->weight(0, at), p = leaf->weight(1, at);
            if (n == 0 && p == 0) return "a score without weight was kept";
            const Weight above = totals_.of[1] - sum.part.totals.of[1] - p;
            if constexpr (sizeof(Weight) == 8)
                sum.delong.add(p, 2 * sum.part.totals.of[0] + n, n, 2 * above + p);
            sum.part += Part{{{n, p}}, product(p, n)};
            ++sum.distinct;
        }
        return nullptr;
    }
    const Inner* inner = static_cast<const Inner*>(node);
    if (inner->size < 1 || inner->size > Inner::kMaxSize) return "an inner node's size is wrong";
    for (int i = 0; i < inner->size; ++i) {
        const double from = i == 0 ? low : inner->fences[i];
        const double to = i + 1 == inner->size ? high : inner->fences[i + 1];
        if (!(from <= to)) return "the fences do not ascend";
        Part with{inner->totals[i], inner->wins ? inner->wins[i] : Pairs<Weight>()}, before = sum.part;
        const char* what = broken_below(inner->children[i], level - 1, from, to, sum);
        if (what != nullptr) return what;
        before += with;
        if (!(before.totals == sum.part.totals)) return "a child's totals are stale";
        if (keeps_delong_ && !(inner->wins && before.wins == sum.part.wins))
            return "a child's W2 is stale";
    }
    return nullptr;
}

template <class Weight>
inline const char* BasicTree<Weight>::broken() const {
    Checked sum;
    const char* what = broken_below(root_, height_, -HUGE_VAL, HUGE_VAL, sum);
    if (what != nullptr) return what;
    if (!(sum.part.totals == totals_)) return "the totals are not those of the leaves";
    if (sum.distinct != distinct_) return "distinct is not the number of scores";
    if (!(sum.part.wins == twice_u_)) return "W2 is not that of the scores";
    if (keeps_delong_ && !(sum.delong == delong_)) return "DeLong's sums are not those of the scores";
    return nullptr;
}

}  // namespace streameval
