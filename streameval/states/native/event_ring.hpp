// EventRing: binary events of weight 1 in the order in which they came.
//
// A score and a byte of flags each. Room grows by doubling, so that a window
// of a hundred million costs nothing before its events come.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace streameval {

class EventRing {
  public:
    std::size_t size() const { return size_; }
    double score(std::size_t at) const { return scores_[place(at)]; }
    std::uint8_t flags(std::size_t at) const { return flags_[place(at)]; }
    std::size_t bytes() const { return room_ * (sizeof(double) + 1); }

    // Makes room for more events; nothing is changed when memory runs out.
    void reserve(std::size_t more) {
        if (size_ + more <= room_) return;
        const std::size_t room = std::max({size_ + more, 2 * room_, std::size_t{16}});
        std::unique_ptr<double[]> scores(new double[room]);
        std::unique_ptr<std::uint8_t[]> flags(new std::uint8_t[room]);
        for (std::size_t at = 0; at < size_; ++at) {
            scores[at] = score(at);
            flags[at] = this->flags(at);
        }
        scores_.swap(scores);
        flags_.swap(flags);
        room_ = room;
        first_ = 0;
    }

    // Puts an event behind the newest; requires room.
    void push(std::uint8_t flags, double score) { set(size_++, flags, score); }

    // Forgets the oldest.
    void drop(std::size_t count) {
        first_ = place(count);
        size_ -= count;
    }

    // Puts an event before the one at a place; requires room.
    void insert(std::size_t at, std::uint8_t flags, double score) {
        for (std::size_t to = size_++; to > at; --to) set(to, this->flags(to - 1), this->score(to - 1));
        set(at, flags, score);
    }
    void erase(std::size_t at) {
        for (--size_; at < size_; ++at) set(at, flags(at + 1), score(at + 1));
    }

    // How far back the newest such event lies, 1 for the last one; 0 where there is none.
    std::size_t newest(std::uint8_t flags, double score) const {
        for (std::size_t back = 1; back <= size_; ++back)
            if (this->flags(size_ - back) == flags && this->score(size_ - back) == score)
                return back;
        return 0;
    }

  private:
    std::unique_ptr<double[]> scores_;
    std::unique_ptr<std::uint8_t[]> flags_;
    std::size_t room_ = 0;
    std::size_t first_ = 0;
    std::size_t size_ = 0;

    std::size_t place(std::size_t at) const {
        const std::size_t place = first_ + at;
        return place < room_ ? place : place - room_;
    }
    void set(std::size_t at, std::uint8_t flags, double score) {
        scores_[place(at)] = score;
        flags_[place(at)] = flags;
    }
};

}  // namespace streameval
