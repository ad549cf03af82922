// Plain JSON records: objects of which some fields of plain values are read.
//
// What is accepted here is a part of JSON in which every parser reads the same. All else is left to
// the parser that is used without compiled code, which also finds and words the errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "csv_cells.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace streameval {

enum JsonKind : uint8_t { json_missing, json_text, json_whole, json_float, json_false, json_true };

// What a field may hold: an id is a text or an integer, a number is read as float64.
enum JsonField : uint8_t { field_id, field_number, field_label, field_time, field_object };

struct JsonValue {
    JsonKind kind = json_missing;
    uint32_t size = 0;  // of a text, or of the digits of an integer
    union {
        const char* text = nullptr;
        double number;
    };
    int64_t whole = 0;
};

class FlatJson {
 public:
    // Adds a field of an object, 0 being the whole record; returns the number of a nested object.
    int field(int inside, std::string name, JsonField kind) {
        const int number = kind == field_object ? ++objects_ : int(values_++);
        fields_.push_back({std::move(name), kind, inside, number});
        return number;
    }

    // Reads one message into a value for each field; false where it is not plain.
    bool read(const char* text, size_t size, JsonValue* values) {
        at_ = text;
        end_ = text + size;
        if (size > UINT32_MAX) return false;
        for (size_t n = 0; n < values_; ++n) values[n].kind = json_missing;
        seen_ = 0;
        high_ = false;
        blank();
        if (!object(values, 0, 0)) return false;
        blank();
        return at_ == end_ && (!high_ || utf8(text));
    }

 private:
    struct Field {
        std::string name;
        JsonField kind;
        int inside;  // the object that has the field
        int number;  // of the value, or of the nested object
    };

    static constexpr int most_deep = 32;

    bool next(char wanted) {
        if (at_ == end_ || *at_ != wanted) return false;
        ++at_;
        return true;
    }

    void blank() {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
    }

    bool word(const char* letters, size_t size) {
        if (size_t(end_ - at_) < size || std::memcmp(at_, letters, size) != 0) return false;
        at_ += size;
        return true;
    }

    // Whether all is UTF-8, as Python decodes it: no surrogates, and nothing longer than it has to be.
    bool utf8(const char* begin) const {
        const auto* p = reinterpret_cast<const unsigned char*>(begin);
        const auto* const end = reinterpret_cast<const unsigned char*>(end_);
        while (p < end) {
            const unsigned c = *p++;
            if (c < 0x80) continue;
            const int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
            if (c < 0xC2 || c > 0xF4 || end - p < more) return false;
            const unsigned least = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
            const unsigned most = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
            if (*p < least || *p > most) return false;
            for (int n = 1; n < more; ++n)
                if (p[n] < 0x80 || p[n] > 0xBF) return false;
            p += more;
        }
        return true;
    }

    // A text in quotes, without control characters, and without escapes where it is read.
    bool quoted(std::string_view& found, bool is_read = true) {
        if (!next('"')) return false;
        const char* const begin = at_;
        do {
#if defined(__SSE2__)
            const __m128i quote = _mm_set1_epi8('"'), escape = _mm_set1_epi8('\\');
            const __m128i control = _mm_set1_epi8(' ' - 1);
            while (end_ - at_ >= 16) {
                const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at_));
                const __m128i odd = _mm_or_si128(_mm_cmpeq_epi8(part, escape),
                                                 _mm_cmpeq_epi8(_mm_min_epu8(part, control), part));
                const int bits = _mm_movemask_epi8(_mm_or_si128(odd, _mm_cmpeq_epi8(part, quote)));
                high_ = high_ || _mm_movemask_epi8(part);
                if (bits) {
                    at_ += trailing_zeros(unsigned(bits));
                    break;
                }
                at_ += 16;
            }
#endif
            for (; at_ < end_ && *at_ != '\\'; ++at_) {
                const unsigned char c = static_cast<unsigned char>(*at_);
                if (c == '"') {
                    found = {begin, size_t(at_ - begin)};
                    ++at_;
                    return true;
                }
                if (c < ' ') return false;
                high_ = high_ || c >= 0x80;
            }
        } while (!is_read && escaped());
        return false;
    }

    // Passes an escape that every parser accepts: no half of a surrogate pair.
    bool escaped() {
        if (end_ - at_ < 2) return false;
        const char letter = at_[1];
        at_ += 2;
        if (letter != 'u') return letter != '\0' && std::strchr("\"\\/bfnrt", letter) != nullptr;
        if (end_ - at_ < 4) return false;
        unsigned code = 0;
        for (int n = 0; n < 4; ++n, ++at_) {
            const unsigned char c = static_cast<unsigned char>(*at_);
            const unsigned low = c | 0x20;
            if (c >= '0' && c <= '9') {
                code = code * 16 + (c - '0');
            } else if (low >= 'a' && low <= 'f') {
                code = code * 16 + (low - 'a' + 10);
            } else {
                return false;
            }
        }
        return code < 0xD800 || code > 0xDFFF;
    }

    bool digits() {
        const char* const begin = at_;
        while (at_ < end_ && *at_ >= '0' && *at_ <= '9') ++at_;
        return at_ > begin;
    }

    // A number by JSON's grammar, of which parse_number takes more.
    bool number(std::string_view& found, bool& is_whole) {
        const char* const begin = at_;
        next('-');
        if (!next('0') && !digits()) return false;
        const char* const whole_end = at_;
        if (next('.') && !digits()) return false;
        if (next('e') || next('E')) {
            if (!next('-')) next('+');
            if (!digits()) return false;
        }
        is_whole = at_ == whole_end;
        found = {begin, size_t(at_ - begin)};
        return true;
    }

    // An object whose fields are read; `values` is null for one that is not read.
    bool object(JsonValue* values, int inside, int depth) {
        if (!next('{')) return false;
        blank();
        if (next('}')) return true;
        do {
            blank();
            std::string_view name;
            if (!quoted(name)) return false;
            blank();
            if (!next(':')) return false;
            blank();
            size_t n = 0, count = values == nullptr ? 0 : fields_.size();
            while (n < count && (fields_[n].name != name || fields_[n].inside != inside)) ++n;
            if (n < count) {
                // Of a field that is there twice the last one counts, also for its type.
                if (seen_ >> n & 1) return false;
                seen_ |= uint64_t(1) << n;
                const Field& field = fields_[n];
                const bool read = field.kind == field_object
                                      ? object(values, field.number, depth + 1)
                                      : value_of(field.kind, values[field.number]);
                if (!read) return false;
            } else if (!any(depth)) {
                return false;
            }
            blank();
        } while (next(','));
        return next('}');
    }

    bool value_of(JsonField field, JsonValue& value) {
        if (at_ == end_) return false;
        std::string_view text;
        switch (*at_) {
            case '"':
                if (field == field_number || !quoted(text)) return false;
                value.kind = json_text;
                value.text = text.data();
                value.size = uint32_t(text.size());
                return true;
            case 'n':
                return word("null", 4);
            case 't':
                value.kind = json_true;
                return field == field_label && word("true", 4);
            case 'f':
                value.kind = json_false;
                return field == field_label && word("false", 5);
            default:
                break;
        }
        bool is_whole = false;
        if (!number(text, is_whole)) return false;
        value.kind = json_float;
        if (!is_whole) return field != field_id && parse_number(text, value.number);
        // -0, which is a float elsewhere, and what may exceed 64 bits.
        if (text == "-0" || text.size() > 18) return false;
        int64_t size = 0;
        for (const char c : text)
            if (c != '-') size = size * 10 + (c - '0');
        value.whole = text[0] == '-' ? -size : size;
        if (field == field_number) {
            value.number = double(value.whole);
        } else {
            value.kind = json_whole;
            value.text = text.data();
            value.size = uint32_t(text.size());
        }
        return true;
    }

    // A value that is not read.
    bool any(int depth) {
        if (at_ == end_ || depth == most_deep) return false;
        std::string_view text;
        bool is_whole;
        switch (*at_) {
            case '"':
                return quoted(text, false);
            case '{':
                return object(nullptr, 0, depth + 1);
            case '[':
                ++at_;
                blank();
                if (next(']')) return true;
                do {
                    blank();
                    if (!any(depth + 1)) return false;
                    blank();
                } while (next(','));
                return next(']');
            case 'n':
                return word("null", 4);
            case 't':
                return word("true", 4);
            case 'f':
                return word("false", 5);
            default:
                return number(text, is_whole);
        }
    }

    std::vector<Field> fields_;
    size_t values_ = 0;
    int objects_ = 0;
    const char* at_ = nullptr;
    const char* end_ = nullptr;
    uint64_t seen_ = 0;
    bool high_ = false;  // whether there may be more than ASCII
};

}  // namespace streameval
