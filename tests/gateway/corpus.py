"""Requests as they come from clients, from proxies, and from people who want to smuggle one inside another."""

from __future__ import annotations

BODY = b'{"model":"chat","messages":[]}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
PATH = b"/v1/chat/completions"
CHUNKS = b"1e\r\n" + BODY + b"\r\n0\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(lines: bytes = LENGTH, body: bytes = BODY, path: bytes = PATH, version: bytes = b"HTTP/1.1") -> bytes:
    return b"POST " + path + b" " + version + b"\r\nHost: x\r\n" + lines + b"\r\n" + body


def get(path: bytes = b"/healthz") -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n"


FINE = {
    "plain": post(),
    "completions": post(path=b"/v1/completions"),
    "embeddings": post(path=b"/v1/embeddings"),
    "no body": post(b"", b""),
    "length zero": post(b"Content-Length: 0\r\n", b""),
    "leading zeros": post(b"Content-Length: 0030\r\n"),
    "names in capitals": post(b"CONTENT-LENGTH: 30\r\n"),
    "blanks around a value": post(b"Content-Length: \t 30 \t\r\n"),
    "an empty value": post(b"X-Empty:\r\n" + LENGTH),
    "bytes above ASCII in a value": post(b"X-Name: \xc3\xa4\xff\r\n" + LENGTH),
    "an odd but legal name": post(b"!#$%&'*+-.^_`|~09aZ: x\r\n" + LENGTH),
    "close": post(b"Connection: close\r\n" + LENGTH),
    "keep-alive": post(b"Connection: keep-alive\r\n" + LENGTH),
    "HTTP/1.0": post(version=b"HTTP/1.0"),
    "HTTP/1.0 that stays": post(b"Connection: keep-alive\r\n" + LENGTH, version=b"HTTP/1.0"),
    "chunks": post(CHUNKED, CHUNKS),
    "chunks in capitals": post(b"TRANSFER-ENCODING: Chunked\r\n", CHUNKS.replace(b"1e", b"1E")),
    "a chunk's extension": post(CHUNKED, CHUNKS.replace(b"1e\r\n", b"1e;name=value\r\n")),
    "a trailer": post(CHUNKED, CHUNKS.replace(b"0\r\n\r\n", b"0\r\nX-Sum: 1\r\n\r\n")),
    "expect": post(b"Expect: 100-continue\r\n" + LENGTH),
    "a query": post(path=PATH + b"?beta=true"),
    "two": post() + post(path=b"/v1/embeddings"),
    "ours, theirs, ours": post() + get() + post(),
    "theirs, ours": get() + post(),
    "a line break ahead": b"\r\n" + post(),
    "a line break between": post() + b"\r\n" + post(),
    "another method": post().replace(b"POST", b"PUT"),
    "a body that looks like a request": post(b"Content-Length: %d\r\n" % len(post()), post()),
    "a body that looks like its own end": post(b"Content-Length: 8\r\n", b"\r\n\r\n\r\n\r\n"),
}

SMUGGLED = {
    "length and chunks": post(LENGTH + CHUNKED, CHUNKS),
    "chunks and length": post(CHUNKED + LENGTH, CHUNKS),
    "length and identity": post(LENGTH + b"Transfer-Encoding: identity\r\n"),
    "two lengths": post(LENGTH + b"Content-Length: 4\r\n"),
    "the same length twice": post(LENGTH + LENGTH),
    "a list of lengths": post(b"Content-Length: 30, 30\r\n"),
    "a length with a sign": post(b"Content-Length: +30\r\n"),
    "a negative length": post(b"Content-Length: -1\r\n"),
    "a length in hexadecimal": post(b"Content-Length: 0x1e\r\n"),
    "a length with a line under it": post(b"Content-Length: 3_0\r\n"),
    "a length in other digits": post("Content-Length: ३०\r\n".encode()),
    "a length without end": post(b"Content-Length: " + b"9" * 40 + b"\r\n"),
    "an empty length": post(b"Content-Length:\r\n"),
    "a blank before the colon": post(b"Content-Length : 30\r\n"),
    "a tab before the colon": post(b"Content-Length\t: 30\r\n"),
    "a folded line": post(b"X: a\r\n b\r\n" + LENGTH),
    "a folded length": post(b"Content-Length:\r\n 30\r\n"),
    "a bare line feed": post(b"X: a\n" + LENGTH),
    "a bare line feed that hides a length": post(b"X: a\nContent-Length: 4\r\n" + LENGTH),
    "a head that ends with bare line feeds": post().replace(b"\r\n\r\n", b"\n\n"),
    "a bare carriage return": post(b"X: a\rContent-Length: 4\r\n" + LENGTH),
    "a zero byte in a value": post(b"X: a\x00b\r\n" + LENGTH),
    "a control character in a value": post(b"X: a\x01b\r\n" + LENGTH),
    "a byte above ASCII in a name": post(b"X\xff: a\r\n" + LENGTH),
    "no colon": post(b"Nonsense\r\n" + LENGTH),
    "no name": post(b": a\r\n" + LENGTH),
    "a blank ahead of the first name": post(b" X: a\r\n" + LENGTH),
    "chunks under another name": post(b"Transfer-Encoding: xchunked\r\n", CHUNKS),
    "chunks twice": post(CHUNKED + CHUNKED, CHUNKS),
    "chunks before another coding": post(b"Transfer-Encoding: chunked, identity\r\n", CHUNKS),
    "chunks behind a vertical tab": post(b"Transfer-Encoding: \x0bchunked\r\n", CHUNKS),
    "a chunk's size with a sign": post(CHUNKED, b"+" + CHUNKS),
    "a chunk's size with 0x": post(CHUNKED, b"0x" + CHUNKS),
    "a chunk's size without end": post(CHUNKED, b"f" * 40 + b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a chunk that is longer than it says": post(CHUNKED, CHUNKS.replace(b"1e", b"1d")),
    "a bare line feed behind a chunk's size": post(CHUNKED, CHUNKS.replace(b"1e\r\n", b"1e\n")),
    "no line break behind a chunk": post(CHUNKED, CHUNKS.replace(b"\r\n0\r\n", b"0\r\n")),
    "HTTP/1.1 in small letters": post(version=b"http/1.1"),
    "HTTP/9.9": post(version=b"HTTP/9.9"),
    "HTTP/1.10": post(version=b"HTTP/1.10"),
    "two blanks before the version": post(version=b" HTTP/1.1"),
    "no version": b"POST " + PATH + b"\r\n\r\n",
    "a tab in the first line": post().replace(b"POST ", b"POST\t", 1),
    "another protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
