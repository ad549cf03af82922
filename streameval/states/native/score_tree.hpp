// ScoreTree: a multiset of scores in two classes that knows W2 at any moment.
//
// A B+-tree whose inner nodes keep, beside each child, the Totals below it.
// One descent finds the place of a score and, on the way, the weight of both
// classes below it; that rank is all an insertion or removal needs to keep
//
//     W2 = sum over (positive, negative) pairs of 2 [s+ > s-] + [s+ = s-]
//
// current. Every method leaves the tree whole when memory runs out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "exact128.hpp"
#include "leaf.hpp"

namespace streameval {

template <class Pair>
class TreeBuilder;

struct Inner {
    static constexpr int kMaxSize = STREAMEVAL_INNER_SIZE;

    int size = 0;
    // Keys of child i are >= fences[i] and < fences[i + 1]; fences[0] is not read.
    double fences[kMaxSize];
    Totals totals[kMaxSize];
    void* children[kMaxSize];

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
    Totals sum() const { return before(size); }

    void insert(int at, double fence, const Totals& total, void* child) {
        for (int i = size; i > at; --i) {
            fences[i] = fences[i - 1];
            totals[i] = totals[i - 1];
            children[i] = children[i - 1];
        }
        fences[at] = fence;
        totals[at] = total;
        children[at] = child;
        ++size;
    }
    void erase(int at) {
        for (int i = at + 1; i < size; ++i) {
            fences[i - 1] = fences[i];
            totals[i - 1] = totals[i];
            children[i - 1] = children[i];
        }
        --size;
    }
};

class ScoreTree {
  public:
    ScoreTree() : root_(Leaf::make(pool_, 8, 1)) {}
    ~ScoreTree() { destroy(pool_, root_, height_); }
    ScoreTree(const ScoreTree&) = delete;
    ScoreTree& operator=(const ScoreTree&) = delete;

    void swap(ScoreTree& other) noexcept {
        pool_.swap(other.pool_);
        std::swap(root_, other.root_);
        std::swap(height_, other.height_);
        std::swap(totals_, other.totals_);
        std::swap(twice_wins_, other.twice_wins_);
        std::swap(distinct_, other.distinct_);
        std::swap(widest_, other.widest_);
    }

    std::uint64_t negatives() const { return totals_.of[0]; }
    std::uint64_t positives() const { return totals_.of[1]; }
    U128 twice_wins() const { return twice_wins_; }
    std::size_t distinct() const { return distinct_; }

    // Whether every weight takes at most 16 bits.
    bool is_narrow() const { return widest_ == 1; }

    // The caller keeps each class below 2^63, so that W2 < 2^127.
    bool has_room(std::uint64_t negatives, std::uint64_t positives) const {
        const std::uint64_t limit = std::uint64_t{1} << 63;
        return negatives < limit - totals_.of[0] && positives < limit - totals_.of[1];
    }

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
                if (shift > widest_) widest_ = shift;
                replace_leaf(path, leaf, leaf->resized(pool_, leaf->capacity(), shift));
                continue;
            }
            twice_wins_ += wins_of(side, leaf, at, found, below, weight);
            if (found) {
                leaf->add(side, at, weight);
            } else {
                leaf->insert(at, key, side, weight);
                ++distinct_;
            }
            totals_.of[side] += weight;
            for (int level = 1; level <= height_; ++level)
                path[level].node->totals[path[level].at].of[side] += weight;
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
        twice_wins_ -= wins_of(side, leaf, at, true, below, weight);
        totals_.of[side] -= weight;
        for (int level = 1; level <= height_; ++level)
            path[level].node->totals[path[level].at].of[side] -= weight;
        if (here > weight || leaf->weight(1 - side, at) != 0) {
            leaf->subtract(side, at, weight);
            return true;
        }
        leaf->erase(at);
        --distinct_;
        // Looking at a neighbour costs a cache miss: only now and then.
        if (leaf->size() <= Leaf::kMaxSize / 2 && leaf->size() % (Leaf::kMaxSize / 16) == 0)
            close_gaps(path);
        return true;
    }

    // Leaves in ascending order.
    std::vector<const Leaf*> leaves() const {
        std::vector<const Leaf*> found;
        collect(root_, height_, found);
        return found;
    }

    std::size_t bytes() const {
        return sizeof(ScoreTree) + pool_.bytes() + inner_bytes(root_, height_);
    }

    // Writes the groups, ascending; each array has distinct() places.
    void read_groups(double* scores, std::int64_t* positives, std::int64_t* negatives) const {
        for (const Leaf* leaf : leaves()) {
            leaf->read(0, leaf->size(), scores, positives, negatives);
            scores += leaf->size();
            positives += leaf->size();
            negatives += leaf->size();
        }
    }

    // Arrays that a part of the groups is read into: places [from, end) are free.
    struct Room {
        double* scores;
        std::int64_t* positives;
        std::int64_t* negatives;
        std::size_t from;
        std::size_t end;
    };
    // Reads the groups right above a score, from the first place on, or those right
    // below it, up to the last place, until the arrays are full. Ascending either way.
    void read_above(double score, Room& room) const { above(root_, height_, score, room); }
    void read_below(double score, Room& room) const { below(root_, height_, score, room); }

    // Replaces the content by a copy of another's.
    void copy_from(const ScoreTree& other) {
        ScoreTree copied;
        void* root = copied_below(copied.pool_, other.root_, other.height_);
        destroy(copied.pool_, copied.root_, 0);
        copied.root_ = root;
        copied.height_ = other.height_;
        copied.totals_ = other.totals_;
        copied.twice_wins_ = other.twice_wins_;
        copied.distinct_ = other.distinct_;
        copied.widest_ = other.widest_;
        swap(copied);
    }

    // The first broken invariant in words, or nullptr.
    const char* broken() const;

  private:
    template <class Pair>
    friend class TreeBuilder;
    friend class TreeCheck;

    struct Step {
        Inner* node;
        int at;
    };
    // Height grows by one when the root of 32 children is full; no machine
    // holds the scores for a height of 24.
    static constexpr int kMaxHeight = 24;
    typedef Step Path[kMaxHeight + 1];  // [height] is the root, [1] the parent of a leaf

    LeafPool pool_;
    void* root_;
    int height_ = 0;  // 0: the root is a leaf
    Totals totals_;
    U128 twice_wins_;
    std::size_t distinct_ = 0;
    int widest_ = 1;  // no leaf has a larger shift

    Leaf* descend(double key, Path& path, Totals& below) const {
        void* node = root_;
        for (int level = height_; level > 0; --level) {
            Inner* inner = static_cast<Inner*>(node);
            const int at = inner->child_of(key);
            node = inner->children[at];
            if (level == 1 && height_ > 2) static_cast<const Leaf*>(node)->prefetch_all();
            path[level].node = inner;
            path[level].at = at;
            below += inner->before(at);
        }
        return static_cast<Leaf*>(node);
    }

    // The part of W2 between `weight` of one class at a place and the whole
    // other class: 2 N_below + N_at for a positive, 2 P_above + P_at for a negative.
    U128 wins_of(int side, const Leaf* leaf, int at, bool found, const Totals& below,
                 std::uint64_t weight) const {
        const int other = 1 - side;
        const std::uint64_t under = below.of[other] + leaf->sum(other, at);
        const std::uint64_t equal = found ? leaf->weight(other, at) : 0;
        const std::uint64_t twice =
            side == 1 ? 2 * under + equal : 2 * (totals_.of[other] - under) - equal;
        return product(weight, twice);
    }

    void replace_leaf(Path& path, Leaf* old, Leaf* leaf) {
        Leaf::destroy(pool_, old);
        if (height_ == 0)
            root_ = leaf;
        else
            path[1].node->children[path[1].at] = leaf;
    }

    void make_room(Path& path, Leaf* leaf, int at);
    void close_gaps(Path& path);
    bool join_leaves(Inner* parent, int left);
    bool join_inners(Inner* parent, int left);

    static bool above(const void* node, int level, double score, Room& room);
    static bool below(const void* node, int level, double score, Room& room);
    static void destroy(LeafPool& pool, void* node, int level) noexcept;
    static void* copied_below(LeafPool& pool, const void* node, int level);
    static void collect(const void* node, int level, std::vector<const Leaf*>& found);
    static std::size_t inner_bytes(const void* node, int level);
};

}  // namespace streameval

#include "tree_shape.hpp"
