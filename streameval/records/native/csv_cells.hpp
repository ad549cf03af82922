// The cells of CSV without quotes, and decimal numbers.
#pragma once

#include <cfloat>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "exact128.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace streameval {

// Where the cells of whole lines end, row by row.
class CsvCells {
 public:
  // False where csv has to parse the text: a quote, a carriage return inside a line, a row of
  // another width, a long cell, or a blank line where that may be an empty cell.
  bool cut(const char* text, size_t size, char delimiter, size_t width, size_t limit) {
    text_ = text;
    size_ = size;
    delimiter_ = delimiter;
    width_ = width;
    limit_ = limit;
    ends_.clear();
    if (size >= UINT32_MAX) return false;
    size_t at = 0;
#if defined(__SSE2__)
    const __m128i marks[] = {_mm_set1_epi8(delimiter), _mm_set1_epi8('\n'), _mm_set1_epi8('"'),
                             _mm_set1_epi8('\r')};
    for (; at + 16 <= size; at += 16) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + at));
      __m128i found = _mm_cmpeq_epi8(part, marks[0]);
      for (int n = 1; n < 4; ++n) found = _mm_or_si128(found, _mm_cmpeq_epi8(part, marks[n]));
      for (unsigned bits = unsigned(_mm_movemask_epi8(found)); bits; bits &= bits - 1)
        if (!mark(at + size_t(trailing_zeros(bits)))) return false;
    }
#endif
    for (; at < size; ++at) {
      const char c = text[at];
      if ((c == delimiter || c == '\n' || c == '"' || c == '\r') && !mark(at)) return false;
    }
    // The last line needs no newline.
    if (size && text[size - 1] != '\n' && !end_cell(size, true)) return false;
    return column_ == 0;
  }

  size_t rows() const { return ends_.size() / width_; }

  std::string_view cell(size_t row, size_t column) const {
    const size_t n = row * width_ + column;
    size_t begin = n ? size_t(ends_[n - 1]) + 1 : 0;
    // A line may end with a carriage return, which belongs to no cell.
    if (n && column == 0 && text_[begin - 1] == '\r') ++begin;
    return {text_ + begin, ends_[n] - begin};
  }

 private:
  bool mark(size_t at) {
    const char c = text_[at];
    if (c == delimiter_) return end_cell(at, false);
    if (c == '\n') return (at && text_[at - 1] == '\r') ? true : end_cell(at, true);
    if (c == '\r') return at + 1 < size_ && text_[at + 1] == '\n' && end_cell(at, true);
    return false;
  }

  bool end_cell(size_t at, bool ends_row) {
    const size_t begin = ends_.empty() ? 0 : size_t(ends_.back()) + 1;
    if (at - begin > limit_ || (width_ == 1 && at <= begin + (at > begin && text_[begin] == '\n')))
      return false;
    ends_.push_back(uint32_t(at));
    ++column_;
    if (ends_row != (column_ == width_)) return false;
    if (ends_row) column_ = 0;
    return true;
  }

  const char* text_ = nullptr;
  size_t size_ = 0;
  char delimiter_ = ',';
  size_t width_ = 1;
  size_t limit_ = 0;
  size_t column_ = 0;
  std::vector<uint32_t> ends_;
};

// The float64 nearest to a decimal number, ties to even. False where another parser has to
// decide: what is no number, more than 19 digits, and large or small exponents.
inline bool parse_number(std::string_view text, double& value) {
  static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *p = text.data(), *const end = p + text.size();
  bool negative = false;
  if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
  uint64_t digits = 0;
  int count = 0, exponent = 0;
  bool any = false, point = false;
  for (; p < end; ++p) {
    const unsigned digit = unsigned(static_cast<unsigned char>(*p)) - '0';
    if (digit <= 9) {
      any = true;
      count += digits != 0 || digit != 0;
      if (count > 19) return false;
      digits = digits * 10 + digit;
      exponent -= point;
    } else if (*p == '.' && !point) {
      point = true;
    } else {
      break;
    }
  }
  if (!any) return false;
  if (p < end && (*p == 'e' || *p == 'E')) {
    ++p;
    bool below = false;
    if (p < end && (*p == '-' || *p == '+')) below = *p++ == '-';
    if (p == end || end - p > 4) return false;
    int given = 0;
    for (; p < end && *p >= '0' && *p <= '9'; ++p) given = given * 10 + (*p - '0');
    exponent += below ? -given : given;
  }
  if (p != end) return false;
  double size;
  if (digits == 0) {
    size = 0.0;
  } else if (FLT_EVAL_METHOD == 0 && digits <= (uint64_t(1) << 53) && -22 <= exponent &&
             exponent <= 22) {
    // Both are floats without an error, so that one operation rounds once.
    size = exponent < 0 ? double(digits) / powers[-exponent] : double(digits) * powers[exponent];
  } else if (-27 <= exponent && exponent < 0) {
    // digits / (5^k 2^k), of which 5^k is below 2^63.
    static const uint64_t fives[] = {1u,      5u,       25u,      125u,      625u,
                                     3125u,   15625u,   78125u,   390625u,   1953125u,
                                     9765625u, 48828125u, 244140625u, 1220703125u, 6103515625u};
    const Wide divisor = fives[-exponent / 2] * fives[-exponent - -exponent / 2];
    size = quotient(Wide(digits), divisor) / double(uint64_t(1) << -exponent);
  } else {
    return false;
  }
  value = negative ? -size : size;
  return true;
}

// Texts that were seen, numbered in the order of their first occurrence.
class TextCodes {
 public:
  int32_t code(std::string_view text) {
    return codes_.try_emplace(text, int32_t(codes_.size())).first->second;
  }
  size_t size() const { return codes_.size(); }

 private:
  std::unordered_map<std::string_view, int32_t> codes_;
};

}  // namespace streameval
