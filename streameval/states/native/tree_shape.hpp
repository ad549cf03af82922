// How a ScoreTree splits, joins, copies and frees its nodes.
//
// Each step allocates before it changes anything and leaves a whole tree, so
// that an insertion takes one step and searches again: a split happens once in
// a hundred insertions and the second search costs nothing next to it.
#pragma once

#include <algorithm>

#include "score_tree.hpp"

namespace streameval {

inline void ScoreTree::make_room(Path& path, Leaf* leaf, int at) {
    const int size = leaf->size();
    if (size < Leaf::kMaxSize) {
        replace_leaf(path, leaf, leaf->resized(pool_, Leaf::capacity_for(size + 1), leaf->shift()));
        return;
    }
    int level = 1;
    while (level <= height_ && path[level].node->size == Inner::kMaxSize) ++level;
    if (level > height_) {
        Inner* root = new Inner(keeps_delong_);
        root->insert(0, 0.0, totals_, root_, twice_wins_);
        root_ = root;
        ++height_;
        return;
    }
    Inner* parent = path[level].node;
    const int place = path[level].at;
    if (level == 1) {
        const int cut = cut_of(size, at);
        Leaf* right = Leaf::make(pool_, Leaf::capacity_for(size - cut + 1), leaf->shift());
        right->append(*leaf, cut, size);
        Leaf* left;
        try {
            left = Leaf::make(pool_, Leaf::capacity_for(cut + 1), leaf->shift());
        } catch (...) {
            Leaf::destroy(pool_, right);
            throw;
        }
        left->append(*leaf, 0, cut);
        parent->children[place] = left;
        parent->split(place, right->keys()[0], right->totals(), right);
        if (keeps_delong_) {
            parent->wins[place] = left->part(cut).wins;
            parent->wins[place + 1] = right->part(size - cut).wins;
        }
        Leaf::destroy(pool_, leaf);
        return;
    }
    Inner* left = path[level - 1].node;
    const int cut = cut_of(left->size, path[level - 1].at + 1);
    Inner* right = new Inner(keeps_delong_);
    for (int i = cut; i < left->size; ++i) right->append(*left, i);
    left->size = cut;
    parent->split(place, right->fences[0], right->sum(), right);
    if (keeps_delong_) {
        parent->wins[place] = left->part(cut).wins;
        parent->wins[place + 1] = right->part(right->size).wins;
    }
}

inline bool ScoreTree::join_leaves(Inner* parent, int left) {
    Leaf* low = static_cast<Leaf*>(parent->children[left]);
    Leaf* high = static_cast<Leaf*>(parent->children[left + 1]);
    const int size = low->size() + high->size();
    if (size > Leaf::kMaxSize * 3 / 4) return false;
    const int shift = low->shift() > high->shift() ? low->shift() : high->shift();
    Leaf* joined = Leaf::make(pool_, Leaf::capacity_for(size + 1), shift);
    joined->append(*low, 0, low->size());
    joined->append(*high, 0, high->size());
    parent->children[left] = joined;
    parent->join(left);
    Leaf::destroy(pool_, low);
    Leaf::destroy(pool_, high);
    return true;
}

inline bool ScoreTree::join_inners(Inner* parent, int left) {
    Inner* low = static_cast<Inner*>(parent->children[left]);
    Inner* high = static_cast<Inner*>(parent->children[left + 1]);
    if (low->size + high->size > Inner::kMaxSize * 3 / 4) return false;
    high->fences[0] = parent->fences[left + 1];
    for (int i = 0; i < high->size; ++i) low->append(*high, i);
    parent->join(left);
    delete high;
    return true;
}

// Joins what got small along the path of a removal. Only for memory and speed:
// a tree with small or empty leaves is whole, so nothing has to be joined here,
// and running out of memory is no reason to fail a removal.
inline void ScoreTree::close_gaps(Path& path) {
    for (int level = 1; level <= height_; ++level) {
        Inner* parent = path[level].node;
        const int at = path[level].at;
        bool joined = false;
        try {
            const auto join = [&](int left) {
                return level == 1 ? join_leaves(parent, left) : join_inners(parent, left);
            };
            joined = (at + 1 < parent->size && join(at)) || (at > 0 && join(at - 1));
        } catch (const std::bad_alloc&) {
        }
        if (!joined || parent->size > Inner::kMaxSize / 2) break;
    }
    while (height_ > 0 && static_cast<Inner*>(root_)->size == 1) {
        Inner* old = static_cast<Inner*>(root_);
        root_ = old->children[0];
        --height_;
        delete old;
    }
}

// Frees the inner nodes, and gives the leaves back where the pool wants them.
inline void ScoreTree::destroy(LeafPool& pool, void* node, int level) noexcept {
    if (level == 0) {
        Leaf::destroy(pool, static_cast<Leaf*>(node));
        return;
    }
    Inner* inner = static_cast<Inner*>(node);
    if (level > 1 || !LeafPool::kFreesAtOnce)
        for (int i = 0; i < inner->size; ++i) destroy(pool, inner->children[i], level - 1);
    delete inner;
}

// When memory runs out, the leaves copied so far go with the pool.
inline void* ScoreTree::copied_below(LeafPool& pool, const void* node, int level) {
    if (level == 0) {
        const Leaf* leaf = static_cast<const Leaf*>(node);
        return leaf->resized(pool, leaf->capacity(), leaf->shift());
    }
    const Inner* inner = static_cast<const Inner*>(node);
    Inner* copied = new Inner(false);  // a copy derives DeLong's sums at their first read
    try {
        for (int i = 0; i < inner->size; ++i)
            copied->insert(i, inner->fences[i], inner->totals[i],
                           copied_below(pool, inner->children[i], level - 1));
    } catch (...) {
        destroy(pool, copied, level);
        throw;
    }
    return copied;
}

inline void ScoreTree::collect(const void* node, int level, std::vector<const Leaf*>& found) {
    if (level == 0) {
        found.push_back(static_cast<const Leaf*>(node));
        return;
    }
    const Inner* inner = static_cast<const Inner*>(node);
    for (int i = 0; i < inner->size; ++i) collect(inner->children[i], level - 1, found);
}

// False once the room is full. Of the children behind the first every score is
// on the wanted side, and the search in their leaves ends at once.
inline bool ScoreTree::above(const void* node, int level, double score, Room& room) {
    if (level == 0) {
        const Leaf* leaf = static_cast<const Leaf*>(node);
        int from = leaf->find(score);
        if (from < leaf->size() && leaf->keys()[from] == score) ++from;
        const std::size_t count = std::min(room.end - room.from,
                                           static_cast<std::size_t>(leaf->size() - from));
        leaf->read(from, from + static_cast<int>(count), room.scores + room.from,
                   room.positives + room.from, room.negatives + room.from);
        room.from += count;
    } else {
        const Inner* inner = static_cast<const Inner*>(node);
        for (int i = inner->child_of(score); i < inner->size; ++i)
            if (!above(inner->children[i], level - 1, score, room)) break;
    }
    return room.from < room.end;
}

inline bool ScoreTree::below(const void* node, int level, double score, Room& room) {
    if (level == 0) {
        const Leaf* leaf = static_cast<const Leaf*>(node);
        const int end = leaf->find(score);
        const std::size_t count =
            std::min(room.end - room.from, static_cast<std::size_t>(end));
        room.end -= count;
        leaf->read(end - static_cast<int>(count), end, room.scores + room.end,
                   room.positives + room.end, room.negatives + room.end);
    } else {
        const Inner* inner = static_cast<const Inner*>(node);
        for (int i = inner->child_of(score); i >= 0; --i)
            if (!below(inner->children[i], level - 1, score, room)) break;
    }
    return room.from < room.end;
}

inline std::size_t ScoreTree::inner_bytes(const void* node, int level) {
    if (level == 0) return 0;
    const Inner* inner = static_cast<const Inner*>(node);
    std::size_t bytes = sizeof(Inner) + (inner->wins ? Inner::kMaxSize * sizeof(U128) : 0);
    if (level > 1)
        for (int i = 0; i < inner->size; ++i) bytes += inner_bytes(inner->children[i], level - 1);
    return bytes;
}

}  // namespace streameval
