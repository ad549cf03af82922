// LeafPool: the memory of one tree's leaves.
//
// A tree has thousands of leaves in a few sizes, and touches one at random for
// each event. Taking them from slabs of 2 MB that the kernel may back by huge
// pages spares most page faults of a bulk build and most TLB misses of an
// update among 10^7 scores: 15 to 30 % of either. A leaf given back serves
// later leaves of its size; slabs go with the tree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

// The address sanitiser sees an overrun only between blocks of malloc.
#if defined(__SANITIZE_ADDRESS__)
#define STREAMEVAL_PLAIN_POOL 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STREAMEVAL_PLAIN_POOL 1
#endif
#endif

namespace streameval {

class LeafPool {
  public:
    static constexpr int kKinds = 24;
#if defined(STREAMEVAL_PLAIN_POOL)
    static constexpr bool kFreesAtOnce = false;
#else
    // Whether blocks need not be given back before the pool goes.
    static constexpr bool kFreesAtOnce = true;
#endif

    LeafPool() = default;
    LeafPool(const LeafPool&) = delete;
    LeafPool& operator=(const LeafPool&) = delete;
    ~LeafPool() {
        while (slabs_ != nullptr) {
            Slab* older = slabs_->older;
            release(slabs_);
            slabs_ = older;
        }
    }

    void swap(LeafPool& other) noexcept {
        std::swap(slabs_, other.slabs_);
        std::swap(place_, other.place_);
        std::swap(end_, other.end_);
        std::swap(bytes_, other.bytes_);
        std::swap(free_, other.free_);
    }

    // Bytes in use or waiting to be used again.
    std::size_t bytes() const { return bytes_; }

    // A block of a multiple of 8 bytes; all blocks of one kind are of one size.
    void* take(std::size_t bytes, int kind) {
#if defined(STREAMEVAL_PLAIN_POOL)
        (void)kind;
        void* block = std::malloc(bytes);
        if (block == nullptr) throw std::bad_alloc();
        bytes_ += bytes;
        return block;
#else
        if (free_[kind] != nullptr) {
            Unused* block = free_[kind];
            free_[kind] = block->next;
            return block;
        }
        if (static_cast<std::size_t>(end_ - place_) < bytes) add_slab(bytes);
        char* block = place_;
        place_ += bytes;
        bytes_ += bytes;
        return block;
#endif
    }

    void give(void* block, std::size_t bytes, int kind) noexcept {
#if defined(STREAMEVAL_PLAIN_POOL)
        (void)kind;
        bytes_ -= bytes;
        std::free(block);
#else
        (void)bytes;
        free_[kind] = new (block) Unused{free_[kind]};
#endif
    }

  private:
    struct Unused {
        Unused* next;
    };
    struct Slab {
        Slab* older;
        std::size_t bytes;
    };
    static constexpr std::size_t kHuge = std::size_t{1} << 21;

    Slab* slabs_ = nullptr;
    char* place_ = nullptr;
    char* end_ = nullptr;
    std::size_t bytes_ = 0;
    Unused* free_[kKinds] = {};

#if defined(__linux__)
    // Mapped and not from malloc, which aligns and then keeps what is given back: where a tree is
    // merged again and again, that would double its memory.
    static void* huge(std::size_t bytes) {
        const std::size_t whole = bytes + kHuge;
        void* mapped =
            mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) return nullptr;
        char* begin = static_cast<char*>(mapped);
        const std::size_t over = reinterpret_cast<std::uintptr_t>(begin) % kHuge;
        const std::size_t before = (kHuge - over) % kHuge;
        if (before != 0) (void)munmap(begin, before);
        (void)munmap(begin + before + bytes, kHuge - before);
        // Only a wish: where the kernel declines, ordinary pages serve.
        (void)madvise(begin + before, bytes, MADV_HUGEPAGE);
        return begin + before;
    }
    static void release(Slab* slab) noexcept {
        if (slab->bytes < kHuge) {
            std::free(slab);
        } else {
            (void)munmap(slab, slab->bytes);
        }
    }
#else
    static void* huge(std::size_t bytes) { return std::malloc(bytes); }
    static void release(Slab* slab) noexcept { std::free(slab); }
#endif

    // Each slab is twice the last, so that a small index stays small.
    void add_slab(std::size_t least) {
        std::size_t bytes = slabs_ == nullptr ? 256 : std::min(2 * slabs_->bytes, kHuge);
        while (bytes < least + sizeof(Slab)) bytes *= 2;
        void* memory = bytes < kHuge ? std::malloc(bytes) : huge(bytes);
        if (memory == nullptr) throw std::bad_alloc();
        slabs_ = new (memory) Slab{slabs_, bytes};
        place_ = static_cast<char*>(memory) + sizeof(Slab);
        end_ = static_cast<char*>(memory) + bytes;
    }
};

}  // namespace streameval
