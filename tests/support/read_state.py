"""A second reader of state files, written from docs/state-format.md alone.

It uses the standard library only and is the oracle of the state file's tests.
Whatever is wrong with the bytes ends in a ValueError. Arrays come as
``(type, [values])``.
"""

import hashlib
import json
import math
import re
import struct
import zlib

MAGIC = bytes.fromhex("89 73 74 72 65 61 6d 65 76 61 6c 0d 0a 1a 0a 00")
CODES = {"bool": "B", "uint8": "B", "int64": "q", "float64": "d"}


def must(condition, what):
    if not condition:
        raise ValueError(what)


def read_state(data):
    """The kind and the structure of a state file's bytes."""
    return read_parts(data)[:2]


def expanded(data):
    """The bytes of a state that a compressed file holds; others as they are."""
    if len(data) < 104 or data[:16] != MAGIC or data[16:20] != b"\3\0\0\0":
        return data
    stream_sum, total, length = struct.unpack_from("<IQQ", data, 20)
    stream = data[40:-32]
    must(total == len(data) and zlib.crc32(stream) == stream_sum, "length or sum of the stream")
    must(64 <= length <= 1100 * len(data), "length of the state")
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(stream, length)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    must(inflater.eof and not inflater.unused_data, "end of the stream")
    must(len(content) == length - 32, "length of the state")
    area = -(-(32 + int.from_bytes(content[20:24], "little")) // 8) * 8
    rows = len(content[area:]) // 8
    must(content[16:20] != b"\3\0\0\0" and len(content[area:]) % 8 == 0, "a state")
    numbers = [content[area + row :: rows] for row in range(rows)]
    return content[:area] + b"".join(numbers) + data[-32:]


def read_parts(data):
    """The kind, the structure and the provenance, None where there is none."""
    data = expanded(data)
    must(len(data) >= 64 and data[:16] == MAGIC, "magic")
    version, header_length, total = struct.unpack_from("<IIQ", data, 16)
    must(version in (1, 2), "format")
    area = -(-(32 + header_length) // 8) * 8
    must(total == len(data) and area <= total - 32, "lengths")
    must(hashlib.sha256(data[:-32]).digest() == data[-32:], "checksum")
    must(not any(data[32 + header_length : area]), "zeros behind the header")
    text = data[32 : 32 + header_length].decode("utf-8")
    try:
        header = json.loads(text)
    except RecursionError:
        raise ValueError("depth") from None
    again = json.dumps(
        header, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )
    must(again == text, "spelling")
    keys = {"data", "kind", "provenance"} if version == 2 else {"data", "kind"}
    must(isinstance(header, dict) and header.keys() == keys, "keys")
    must(isinstance(header["data"], dict) and isinstance(header["kind"], str), "data or kind")
    position = area

    def plain(text):
        """The text or integer that a written text stands for."""
        if not text.startswith("$") or text.startswith("$$"):
            return text[text.startswith("$") :]
        name, _, body = text.partition(":")
        must(re.fullmatch("-?[1-9a-f][0-9a-f]*|([0-9a-f]{2})+", body), "base 16")
        if name == "$int":
            must(body.lstrip("-")[0] != "0", "leading zero")
            number = int(body, 16)
            must(not -(2**63) <= number < 2**63, "a small integer as text")
            return number
        must(name == "$text", "mark")
        value = bytes.fromhex(body).decode("utf-8", "surrogatepass")
        must(re.search("[\ud800-\udfff]", value), "a valid text in base 16")
        return value

    def array(text):
        nonlocal position
        parts = re.fullmatch(r"\$array:(\w+):(0|[1-9][0-9]*):(0|[1-9][0-9]*)", text)
        must(parts and parts[1] in CODES and len(text) < 80, "reference")
        code, length, begin = CODES[parts[1]], int(parts[2]), area + int(parts[3])
        end = begin + length * struct.calcsize("<" + code)
        must(begin == position and end <= total - 32, "place of an array")
        position = -(-end // 8) * 8
        must(not any(data[end:position]) and position <= total - 32, "zeros behind an array")
        values = list(struct.unpack_from(f"<{length}{code}", data, begin))
        must(all(map(math.isfinite, values)), "nan")
        if parts[1] == "bool":
            must(set(values) <= {0, 1}, "bool")
            values = [value == 1 for value in values]
        return parts[1], values

    def value(tree, depth):
        if isinstance(tree, str):
            return array(tree) if tree.startswith("$array:") else plain(tree)
        if isinstance(tree, int):
            must(-(2**63) <= tree < 2**63, "a large integer as number")
        if not isinstance(tree, (list, dict)):
            return tree
        must(depth <= 64, "depth")
        if isinstance(tree, list):
            return [value(item, depth + 1) for item in tree]
        items = {plain(key): value(item, depth + 1) for key, item in tree.items()}
        must(all(isinstance(key, str) for key in items), "key")
        return items

    kind, structure = plain(header["kind"]), value(header["data"], 1)
    must(kind and isinstance(kind, str) and position == total - 32, "kind, or bytes left over")
    if version == 1:
        return kind, structure, None
    must(isinstance(header["provenance"], dict), "provenance")
    # An array there would lie behind the last one.
    provenance = value(header["provenance"], 1)
    return kind, structure, provenance


def check_provenance(parts):
    """ValueError unless they are what the page says of a provenance."""
    must(isinstance(parts, dict) and set(parts) == {"contents", "shards"}, "its keys")
    contents, shards = parts["contents"], parts["shards"]
    must(isinstance(contents, list) and isinstance(shards, list), "its lists")
    for text in contents:
        must(isinstance(text, str) and re.fullmatch("[0-9a-f]{32}", text), "content")
    must(contents == sorted(set(contents)), "order of contents")
    for entry in shards:
        must(isinstance(entry, list) and len(entry) >= 4 and len(entry) % 2 == 0, "entry")
        name, epoch, *borders = entry
        must(isinstance(name, str) and 0 < len(name) <= 200 and name.isprintable(), "name")
        must(" " not in name and all(type(n) is int for n in (epoch, *borders)), "name or numbers")
        must(0 <= epoch < 2**63 - 1 and min(borders) >= 0 and max(borders) < 2**63, "numbers")
        must(borders == sorted(set(borders)), "borders")
    keys = [tuple(entry[:2]) for entry in shards]
    must(keys == sorted(set(keys)) and (contents or shards), "order of shards")
