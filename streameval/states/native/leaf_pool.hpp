// LeafPool: the memory of one tree.
//
// A tree has thousands of leaves in a few sizes, and touches one at random for
// each event. Taking them from slabs of 2 MB that the kernel may back by huge
// pages spares most page faults of a bulk build and most TLB misses of an
// update among 10^7 scores: 15 to 30 % of either. A block given back serves
// later blocks of its kind; slabs go with the tree, so that its nodes need no destructors.
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

// The address sanitiser sees an overrun between blocks of malloc, and a use of what it was told.
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define STREAMEVAL_OWN_SLABS true
#else
#define ASAN_POISON_MEMORY_REGION(block, bytes) ((void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(block, bytes) ((void)(bytes))
#define STREAMEVAL_OWN_SLABS false
#endif

namespace streameval {

class LeafPool {
  public:
    static constexpr int kKinds = 26;

    LeafPool() = default;
    LeafPool(LeafPool&& other) noexcept { swap(other); }
    LeafPool& operator=(LeafPool&& other) noexcept {
        swap(other);
        return *this;
    }
    ~LeafPool() {
        while (slabs_ != nullptr) {
            Slab* older = slabs_->older;
            release(slabs_);
            slabs_ = older;
        }
    }

    // Bytes in use or waiting to be used again.
    std::size_t bytes() const { return bytes_; }

    // A block aligned to 16 bytes; all blocks of one kind are of one size.
    void* take(std::size_t bytes, int kind) {
        bytes = rounded(bytes);
        if (free_[kind] != nullptr) {
            Unused* block = free_[kind];
            ASAN_UNPOISON_MEMORY_REGION(block, bytes);
            free_[kind] = block->next;
            return block;
        }
        if (STREAMEVAL_OWN_SLABS || static_cast<std::size_t>(end_ - place_) < bytes) add_slab(bytes);
        char* block = place_;
        place_ += bytes;
        bytes_ += bytes;
        return block;
    }

    void give(void* block, std::size_t bytes, int kind) noexcept {
        free_[kind] = new (block) Unused{free_[kind]};
        ASAN_POISON_MEMORY_REGION(block, rounded(bytes));
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

    void swap(LeafPool& other) noexcept {
        std::swap(slabs_, other.slabs_);
        std::swap(place_, other.place_);
        std::swap(end_, other.end_);
        std::swap(bytes_, other.bytes_);
        std::swap(free_, other.free_);
    }

    static std::size_t rounded(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

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
        if (slab->bytes < kHuge)
            std::free(slab);
        else
            (void)munmap(slab, slab->bytes);
    }
#else
    static void* huge(std::size_t bytes) { return std::malloc(bytes); }
    static void release(Slab* slab) noexcept { std::free(slab); }
#endif

    // Each slab is twice the last, so that a small index stays small.
    void add_slab(std::size_t least) {
        std::size_t bytes = slabs_ == nullptr ? 256 : std::min(2 * slabs_->bytes, kHuge);
        while (bytes < least + sizeof(Slab)) bytes *= 2;
        if (STREAMEVAL_OWN_SLABS) bytes = least + sizeof(Slab);
        void* memory = bytes < kHuge ? std::malloc(bytes) : huge(bytes);
        if (memory == nullptr) throw std::bad_alloc();
        slabs_ = new (memory) Slab{slabs_, bytes};
        place_ = static_cast<char*>(memory) + sizeof(Slab);
        end_ = static_cast<char*>(memory) + bytes;
    }
};

}  // namespace streameval
