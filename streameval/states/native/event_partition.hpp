// The events of a batch by the set of states that counts them, each set in the order of scores.
//
// A bucket of time is sorted by score once. Its events in this order are a set of the total, and
// distributed over the slices they give the sets of these, each sorted, in O(events + slices) a
// dimension, whatever the number of sets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tree_builder.hpp"

namespace streameval {

// Distinct scores, ascending, with the weight of the negatives and of the positives at each.
struct Groups {
    std::vector<double> scores;
    std::vector<std::int64_t> weights[2];

    void resize(std::size_t size) {
        scores.resize(size);
        weights[0].resize(size);
        weights[1].resize(size);
    }
    // The groups of two, both of them others than this.
    void merge(const Groups& a, const Groups& b) {
        resize(a.scores.size() + b.scores.size());
        std::size_t at_a = 0, at_b = 0, size = 0;
        for (; at_a < a.scores.size() || at_b < b.scores.size(); ++size) {
            const bool take_a = at_b == b.scores.size() ||
                                (at_a < a.scores.size() && a.scores[at_a] <= b.scores[at_b]);
            const bool take_b = at_a == a.scores.size() ||
                                (at_b < b.scores.size() && b.scores[at_b] <= a.scores[at_a]);
            scores[size] = take_a ? a.scores[at_a] : b.scores[at_b];
            for (int side = 0; side < 2; ++side)
                weights[side][size] = (take_a ? a.weights[side][at_a] : 0) +
                                      (take_b ? b.weights[side][at_b] : 0);
            at_a += take_a;
            at_b += take_b;
        }
        resize(size);
    }
};

class EventPartition {
  public:
    // Events [from, to) of the columns below, which one window counts in one bucket.
    struct Set {
        std::size_t from, to;
        std::int64_t window, bucket;
        // Number of events by 2 * (true class) + (predicted class).
        std::int64_t cells[4];
    };
    // Columns that the caller has validated; those that there are not are null.
    struct Columns {
        std::size_t size;
        const std::uint8_t* truth;
        const std::uint8_t* predicted;
        const double* scores;         // finite, no -0.0
        const std::int64_t* moments;  // ascending or not
        // A bucket has so many moments, and those of buckets below `least` are left out.
        std::int64_t width, least;
    };
    // The window of each event in one dimension is windows[codes[row]].
    struct Dimension {
        const std::int64_t* codes;
        const std::int64_t* windows;
    };

    // By window, then by bucket.
    std::vector<Set> sets;

    const std::vector<std::int64_t>& buckets() const { return numbers_; }
    const double* scores() const { return scores_.get(); }
    bool positive(std::size_t at) const { return (flags_[at] & 2) != 0; }

    // The sets of the window 0, which counts all events, and of those of the dimensions: no
    // window is in two of them, and each is less than `windows`.
    void sort(const Columns& in, const std::vector<Dimension>& dimensions, std::size_t windows) {
        place(in);
        const std::size_t size = starts_.back(), room = size * (1 + dimensions.size());
        const bool scored = in.scores != nullptr;
        flags_.reset(new std::uint8_t[room]);
        if (scored) scores_.reset(new double[room]);
        std::vector<Open> open(windows + 1);
        open[1].next = size;
        for (const Dimension& one : dimensions)
            for (std::size_t at = 0; at < size; ++at)
                ++open[static_cast<std::size_t>(one.windows[one.codes[row(at)]]) + 1].next;
        for (std::size_t n = 0; n < windows; ++n) open[n + 1].next += open[n].next;
        std::vector<Event> events, other;
        for (std::size_t bucket = 0; bucket < numbers_.size(); ++bucket) {
            const std::size_t from = starts_[bucket], to = starts_[bucket + 1];
            events.resize(to - from);
            for (std::size_t at = from; at < to; ++at) {
                const std::uint32_t n = row(at);
                const bool predicted = in.predicted != nullptr && in.predicted[n];
                const std::int64_t bits = scored ? ordered(bits_of(in.scores[n])) : 0;
                events[at - from] = {static_cast<std::uint64_t>(bits) ^ kSign, n,
                                     (in.truth[n] ? 2u : 0u) | (predicted ? 1u : 0u)};
            }
            if (scored) order(events, other);
            count(events, open, bucket, [](std::uint32_t) { return 0; });
            for (const Dimension& one : dimensions)
                count(events, open, bucket,
                      [one](std::uint32_t n) { return one.windows[one.codes[n]]; });
        }
        rows_ = {};
        // The columns are by window and bucket.
        std::sort(sets.begin(), sets.end(),
                  [](const Set& a, const Set& b) { return a.from < b.from; });
    }

    // The scores of each class, ascending.
    void classes(const Set& set, std::vector<double>* of) const {
        of[0].clear();
        of[1].clear();
        for (std::size_t at = set.from; at < set.to; ++at)
            of[positive(at)].push_back(scores_[at]);
    }

    void groups(const Set& set, Groups& to) const {
        to.resize(set.to - set.from);
        std::size_t size = 0;
        for (std::size_t at = set.from; at < set.to; ++at) {
            const double score = scores_[at];
            if (size == 0 || to.scores[size - 1] != score) {
                to.scores[size] = score;
                to.weights[0][size] = to.weights[1][size] = 0;
                ++size;
            }
            ++to.weights[positive(at)][size - 1];
        }
        to.resize(size);
    }

  private:
    struct Event {
        std::uint64_t key;  // of the order of the scores
        std::uint32_t row;
        std::uint32_t flags;  // 2 * (true class) + (predicted class)
    };
    // Where a window's next event is written, and what it has of the current bucket.
    struct Open {
        std::size_t next = 0;
        std::int64_t cells[4] = {0, 0, 0, 0};
    };
    // Below so many events a sort by comparisons takes less than the counts of digits.
    static constexpr std::size_t kFew = 384;
    static constexpr int kDigits = 3, kBits = 11;
    static constexpr std::uint64_t kSign = std::uint64_t(1) << 63;

    std::unique_ptr<double[]> scores_;
    std::unique_ptr<std::uint8_t[]> flags_;
    std::vector<std::uint32_t> rows_;    // by bucket; empty where the rows are so already
    std::size_t first_ = 0;              // the first row then
    std::vector<std::size_t> starts_;    // of the buckets among the rows, and the end
    std::vector<std::int64_t> numbers_;  // of the buckets
    std::vector<std::size_t> touched_;   // windows with events of the current bucket

    std::uint32_t row(std::size_t at) const {
        return rows_.empty() ? static_cast<std::uint32_t>(first_ + at) : rows_[at];
    }

    // The rows bucket by bucket.
    void place(const Columns& in) {
        starts_.assign(1, 0);
        if (in.moments == nullptr) {
            numbers_.push_back(0);
            starts_.push_back(in.size);
            return;
        }
        const auto bucket_of = [&in](std::int64_t moment) {
            return moment / in.width - (moment % in.width < 0 ? 1 : 0);
        };
        const auto before = [&bucket_of](std::int64_t moment, std::int64_t bucket) {
            return bucket_of(moment) < bucket;
        };
        const std::int64_t* end = in.moments + in.size;
        if (std::is_sorted(in.moments, end)) {
            const std::int64_t* from = std::lower_bound(in.moments, end, in.least, before);
            first_ = static_cast<std::size_t>(from - in.moments);
            while (from < end) {
                numbers_.push_back(bucket_of(*from));
                from = std::lower_bound(from, end, numbers_.back() + 1, before);
                starts_.push_back(static_cast<std::size_t>(from - in.moments) - first_);
            }
            return;
        }
        // As many numbers as a timeline keeps at most.
        const auto ends = std::minmax_element(in.moments, end);
        const std::int64_t low = std::max(in.least, bucket_of(*ends.first));
        const std::int64_t high = bucket_of(*ends.second);
        if (high < low) return;
        std::vector<std::uint32_t> bucket(in.size);
        std::vector<std::size_t> next(static_cast<std::size_t>(high - low) + 3, 0);
        for (std::size_t n = 0; n < in.size; ++n) {
            // From 1 on, and 0 for what is left out.
            const std::int64_t number = std::max<std::int64_t>(bucket_of(in.moments[n]) - low, -1);
            bucket[n] = static_cast<std::uint32_t>(number + 1);
            ++next[bucket[n] + 1];
        }
        const std::size_t left_out = next[1];
        next[1] = 0;
        for (std::size_t n = 1; n + 1 < next.size(); ++n) {
            if (next[n + 1] != 0) {
                numbers_.push_back(low + static_cast<std::int64_t>(n) - 1);
                starts_.push_back(starts_.back() + next[n + 1]);
            }
            next[n + 1] += next[n];
        }
        rows_.resize(in.size - left_out);
        for (std::size_t n = 0; n < in.size; ++n)
            if (bucket[n] != 0) rows_[next[bucket[n]]++] = static_cast<std::uint32_t>(n);
    }

    // The events of one bucket, in the order in which they are written for each window.
    template <class Window>
    void count(const std::vector<Event>& events, std::vector<Open>& windows, std::size_t bucket,
               Window window_of) {
        // In variables of their own: bytes that are written might be any of these.
        double* const scores = scores_.get();
        std::uint8_t* const flags = flags_.get();
        Open* const open = windows.data();
        touched_.clear();
        for (const Event& event : events) {
            const std::size_t window = static_cast<std::size_t>(window_of(event.row));
            Open& to = open[window];
            const std::size_t at = to.next++;
            if (to.cells[0] + to.cells[1] + to.cells[2] + to.cells[3] == 0)
                touched_.push_back(window);
            ++to.cells[event.flags];
            if (scores != nullptr)
                scores[at] = score_of(ordered(static_cast<std::int64_t>(event.key ^ kSign)));
            flags[at] = static_cast<std::uint8_t>(event.flags);
        }
        for (const std::size_t window : touched_) {
            Open& to = open[window];
            Set set{to.next, to.next, static_cast<std::int64_t>(window), numbers_[bucket], {}};
            for (int at = 0; at < 4; ++at) {
                set.from -= static_cast<std::size_t>(to.cells[at]);
                std::swap(set.cells[at], to.cells[at]);
            }
            sets.push_back(set);
        }
    }

    // By score: the highest bits in which there are differences by digits, the lowest of these
    // first, and by comparisons what they leave in disorder.
    static void order(std::vector<Event>& events, std::vector<Event>& other) {
        const auto less = [](const Event& a, const Event& b) { return a.key < b.key; };
        const std::size_t size = events.size();
        if (size < kFew) {
            std::sort(events.begin(), events.end(), less);
            return;
        }
        std::uint64_t different = 0;
        for (const Event& event : events) different |= event.key ^ events[0].key;
        int shift = 0;
        while (different >> shift >> (kDigits * kBits) != 0) ++shift;
        constexpr std::uint64_t mask = (std::uint64_t(1) << kBits) - 1;
        // Of each digit: how many keys have less.
        std::vector<std::uint32_t> counts(std::size_t(kDigits) << kBits, 0);
        for (const Event& event : events)
            for (int digit = 0; digit < kDigits; ++digit)
                ++counts[(std::size_t(digit) << kBits) +
                         (event.key >> (shift + digit * kBits) & mask)];
        other.resize(size);
        for (int digit = 0; digit < kDigits; ++digit, shift += kBits) {
            std::uint32_t* next = counts.data() + (std::size_t(digit) << kBits);
            std::uint32_t sum = 0;
            for (std::size_t n = 0; n <= mask; ++n) sum += std::exchange(next[n], sum);
            Event* target = other.data();
            for (const Event& event : events) target[next[event.key >> shift & mask]++] = event;
            events.swap(other);
        }
        shift -= kDigits * kBits;
        for (auto from = events.begin(); from != events.end();) {
            auto to = from + 1;
            while (to != events.end() && to->key >> shift == from->key >> shift) ++to;
            if (!std::is_sorted(from, to, less)) std::sort(from, to, less);
            from = to;
        }
    }
};

// What is held of a closed bucket: the cells of its confusion and the groups of its scores.
//
//     0xC1, which no other form begins with; bytes of a weight; 6 bytes of 0
//     int64[4] cells; int64 number of groups
//     double[groups] scores, ascending; weight[groups] negatives; weight[groups] positives
struct PackedSet {
    static constexpr unsigned char kMark = 0xC1;
    static constexpr std::size_t kHead = 8 + 4 * 8 + 8;

    static int width(const Groups& groups) {
        std::uint64_t bits = 0;
        for (const auto& side : groups.weights)
            for (const std::int64_t weight : side) bits |= static_cast<std::uint64_t>(weight);
        return bits >> 8 == 0 ? 1 : bits >> 16 == 0 ? 2 : bits >> 32 == 0 ? 4 : 8;
    }
    static std::size_t size(std::size_t groups, int width) {
        return kHead + groups * (8 + 2 * static_cast<std::size_t>(width));
    }
    static void write(char* to, const std::int64_t* cells, const Groups& groups, int width) {
        const std::size_t size = groups.scores.size();
        const std::int64_t stored = static_cast<std::int64_t>(size);
        std::memset(to, 0, 8);
        to[0] = static_cast<char>(kMark);
        to[1] = static_cast<char>(width);
        std::memcpy(to + 8, cells, 32);
        std::memcpy(to + 40, &stored, 8);
        std::copy_n(reinterpret_cast<const char*>(groups.scores.data()), 8 * size, to + kHead);
        to += kHead + 8 * size;
        of_width(width, [&](auto narrow) {
            for (const auto& side : groups.weights)
                for (const std::int64_t weight : side) {
                    narrow = static_cast<decltype(narrow)>(weight);
                    std::memcpy(to, &narrow, sizeof narrow);
                    to += sizeof narrow;
                }
        });
    }
    static void read(const char* from, std::int64_t* cells, Groups& groups) {
        const int width = from[1];
        std::int64_t stored;
        std::memcpy(cells, from + 8, 32);
        std::memcpy(&stored, from + 40, 8);
        const std::size_t size = static_cast<std::size_t>(stored);
        groups.resize(size);
        std::copy_n(from + kHead, 8 * size, reinterpret_cast<char*>(groups.scores.data()));
        from += kHead + 8 * size;
        of_width(width, [&](auto narrow) {
            for (auto& side : groups.weights)
                for (std::int64_t& weight : side) {
                    std::memcpy(&narrow, from, sizeof narrow);
                    weight = static_cast<std::int64_t>(narrow);
                    from += sizeof narrow;
                }
        });
    }

  private:
    // Calls f with an integer of so many bytes.
    template <class F>
    static void of_width(int width, F&& f) {
        switch (width) {
            case 1: return f(std::uint8_t{});
            case 2: return f(std::uint16_t{});
            case 4: return f(std::uint32_t{});
            default: return f(std::uint64_t{});
        }
    }
};

}  // namespace streameval
