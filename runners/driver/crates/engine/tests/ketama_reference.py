"""Print which server libmemcached's weighted ketama chooses for each key: the reference values of ketama.rs.

Debian's libmemcached11 (1.1.4) made ketama.txt:
    python3 crates/engine/tests/ketama_reference.py > crates/engine/tests/ketama.txt
"""

import ctypes
import string

KEYS = 600
LETTERS = string.digits + string.ascii_letters
KETAMA_WEIGHTED = 16
#: Host and port; a port of 0 is that of the unix socket with this path.
SERVERS = [
    [("127.0.0.1", 11211), ("127.0.0.1", 11212)],
    [("127.0.0.1", 11211), ("127.0.0.1", 11212), ("127.0.0.1", 11213)],
    [(f"cache{number}.example", 11211) for number in range(10)],
    [("::1", 11212), ("::1", 11213), ("localhost", 11211), ("10.0.0.1", 6000)],
    [("/run/memcached/a.sock", 0), ("/run/memcached/b.sock", 0), ("127.0.0.1", 11211)],
    [("10.1.2.3", 20000 + number) for number in range(41)],
    [(f"h{number}", 11211) for number in range(55)],
]


def placed(servers: list[tuple[str, int]], keys: list[bytes]) -> str:
    """For each key the letter of its server."""
    library = ctypes.CDLL("libmemcached.so.11")
    library.memcached_create.restype = ctypes.c_void_p
    library.libmemcached_string_behavior.restype = ctypes.c_char_p
    assert library.libmemcached_string_behavior(KETAMA_WEIGHTED) == b"MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED"
    client = ctypes.c_void_p(library.memcached_create(None))
    assert library.memcached_behavior_set(client, KETAMA_WEIGHTED, ctypes.c_uint64(1)) == 0
    for host, port in servers:
        if port:
            assert library.memcached_server_add(client, host.encode(), ctypes.c_uint16(port)) == 0
        else:
            assert library.memcached_server_add_unix_socket(client, host.encode()) == 0
    library.memcached_generate_hash.restype = ctypes.c_uint32
    places = [library.memcached_generate_hash(client, key, ctypes.c_size_t(len(key))) for key in keys]
    library.memcached_free(client)
    return "".join(LETTERS[place] for place in places)


if __name__ == "__main__":
    keys = [f"key:{number:012}".encode() for number in range(KEYS)]
    for servers in SERVERS:
        print(" ".join(f"{host}|{port}" for host, port in servers))
        print(placed(servers, keys))
