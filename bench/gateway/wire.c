/* The two ends of a gateway's benchmark, fast enough not to be what is measured.
 *
 *   wire serve HOST PORT                                       an engine: answers of 1 KB, or streams
 *   wire load HOST PORT PATH CONNECTIONS SECONDS KEY BODY      a crowd of clients, each asking again when it has its answer
 *
 * A request whose body has "stream":true gets "max_tokens" events, each sent by itself, "top_k" milliseconds apart (0: at
 * once). `load` prints one line of JSON: requests, errors, seconds, and how long in microseconds they took: the whole
 * answer, the first byte, and the gaps between two readings of a stream.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 64 * 1024, EVENTS = 1024, CONNECTIONS_MAX = 32768, SAMPLES_MAX = 1 << 24 };

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in address_of(const char *host, const char *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1) fail("address");
    return a;
}

static void watch(int epoll, int fd, void *what, uint32_t events) {
    struct epoll_event e = {.events = events, .data.ptr = what};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e)) fail("epoll_ctl");
}

static void raise_limit(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* --- serve --- */

typedef struct Peer {
    int fd;
    size_t have;
    int left;           /* events still to send */
    int pace_ms;
    int64_t due_us;     /* when the next one is due */
    struct Peer *next;  /* in the list of paced streams */
    bool is_paced;
    char buffer[];
} Peer;

enum { PEER_BYTES = 256 * 1024 };

static char json_answer[2048], health_answer[512];
static const char stream_head[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
static const char stream_end[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
static char event[512];
static size_t event_size;
static Peer *paced;

static void make_answers(void) {
    char words[900], body[1400];
    for (size_t i = 0; i < sizeof words - 1; i++) words[i] = i % 6 == 5 ? ' ' : (char)('a' + i % 26);
    words[700] = 0;
    snprintf(body, sizeof body,
             "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,"
             "\"message\":{\"role\":\"assistant\",\"content\":\"%s\"},\"finish_reason\":\"stop\"}],"
             "\"usage\":{\"prompt_tokens\":20,\"completion_tokens\":140,\"total_tokens\":160}}", words);
    snprintf(json_answer, sizeof json_answer,
             "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", strlen(body), body);
    const char *health = "{\"status\":\"ok\",\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\"}]}";
    snprintf(health_answer, sizeof health_answer,
             "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", strlen(health), health);
    const char *data = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\","
                       "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n";
    event_size = (size_t)snprintf(event, sizeof event, "%zx\r\n%s\r\n", strlen(data), data);
}

static int number_after(const char *body, const char *name, int otherwise) {
    const char *found = strstr(body, name);
    return found ? atoi(found + strlen(name)) : otherwise;
}

static bool say(Peer *peer, const char *bytes, size_t size) {
    while (size) {
        ssize_t sent = send(peer->fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            /* The reader is slow: wait for it. A little server may; the others' readers are slow then, too. */
            fd_set set;
            FD_ZERO(&set);
            if (peer->fd >= FD_SETSIZE) { usleep(200); continue; }
            FD_SET(peer->fd, &set);
            struct timeval wait = {.tv_usec = 1000};
            select(peer->fd + 1, NULL, &set, NULL, &wait);
            continue;
        }
        if (sent < 0) return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool answer(Peer *peer, const char *head, const char *body) {
    if (memcmp(head, "POST", 4)) return say(peer, health_answer, strlen(health_answer));
    if (!strstr(body, "\"stream\":true") && !strstr(body, "\"stream\": true")) return say(peer, json_answer, strlen(json_answer));
    peer->left = number_after(body, "\"max_tokens\":", 16);
    peer->pace_ms = number_after(body, "\"top_k\":", 0);
    if (!say(peer, stream_head, sizeof stream_head - 1)) return false;
    if (!peer->pace_ms) {
        for (; peer->left; peer->left--)
            if (!say(peer, event, event_size)) return false;
        return say(peer, stream_end, sizeof stream_end - 1);
    }
    peer->due_us = now_us() + (int64_t)peer->pace_ms * 1000;
    peer->is_paced = true;
    peer->next = paced;
    paced = peer;
    return true;
}

/* Everything whole that has arrived. False: the connection is over. */
static bool take(Peer *peer) {
    for (;;) {
        peer->buffer[peer->have] = 0;
        char *end = strstr(peer->buffer, "\r\n\r\n");
        if (!end) return peer->have < PEER_BYTES - 1;
        char *length = strcasestr(peer->buffer, "\r\ncontent-length:");
        size_t body = length && length < end ? (size_t)atoi(length + 17) : 0, size = (size_t)(end + 4 - peer->buffer) + body;
        if (size > PEER_BYTES - 1) return false;
        if (peer->have < size) return true;
        char kept = peer->buffer[size];
        peer->buffer[size] = 0;
        if (!answer(peer, peer->buffer, end + 4)) return false;
        peer->buffer[size] = kept;
        memmove(peer->buffer, peer->buffer + size, peer->have - size);
        peer->have -= size;
    }
}

static void drop(Peer *peer) {
    close(peer->fd);
    peer->fd = -1;
    if (!peer->is_paced) free(peer);
}

static void tick(void) {
    int64_t now = now_us();
    for (Peer **at = &paced; *at;) {
        Peer *peer = *at;
        bool is_over = peer->fd < 0;
        while (!is_over && peer->due_us <= now) {
            if (!say(peer, event, event_size)) is_over = true;
            else if (!--peer->left) { say(peer, stream_end, sizeof stream_end - 1); is_over = true; }
            peer->due_us += (int64_t)peer->pace_ms * 1000;
        }
        if (!is_over) { at = &peer->next; continue; }
        *at = peer->next;
        peer->is_paced = false;
        if (peer->fd < 0) free(peer);
    }
}

static void serve(const char *host, const char *port) {
    raise_limit();
    make_answers();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), epoll = epoll_create1(0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in a = address_of(host, port);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) || listen(listener, 4096)) fail("listen");
    watch(epoll, listener, NULL, EPOLLIN);
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, paced ? 1 : -1);
        for (int i = 0; i < count; i++) {
            Peer *peer = events[i].data.ptr;
            if (!peer) {
                for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
                    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                    peer = calloc(1, sizeof *peer + PEER_BYTES);
                    peer->fd = fd;
                    watch(epoll, fd, peer, EPOLLIN);
                }
                continue;
            }
            ssize_t got = recv(peer->fd, peer->buffer + peer->have, PEER_BYTES - 1 - peer->have, 0);
            if (got < 0 && errno == EAGAIN) continue;
            if (got <= 0) { drop(peer); continue; }
            peer->have += (size_t)got;
            if (!take(peer)) drop(peer);
        }
        if (paced) tick();
    }
}

/* --- load --- */

typedef struct {
    int fd;
    bool in_body, is_chunked, is_waiting;
    size_t head_have, left;
    int64_t asked_us, last_us;
    char tail[8];
    char head[8192];
} Asker;

typedef struct { uint32_t *at; size_t count; } Samples;

static Samples whole, first, gaps;
static size_t errors;
static char *request;
static size_t request_size;
static struct sockaddr_in there;
static int load_epoll;

static void sample(Samples *samples, int64_t us) {
    if (!samples->at) samples->at = malloc(sizeof(uint32_t) * SAMPLES_MAX);
    if (samples->count < SAMPLES_MAX) samples->at[samples->count++] = us < 0 ? 0 : (uint32_t)us;
}

static int in_order(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double at_share(Samples *samples, double share) {
    if (!samples->count) return 0;
    qsort(samples->at, samples->count, sizeof(uint32_t), in_order);
    return samples->at[(size_t)(share * (double)(samples->count - 1))];
}

static void open_line(Asker *asker) {
    int on = 1;
    asker->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (asker->fd < 0 || connect(asker->fd, (struct sockaddr *)&there, sizeof there)) fail("connect");
    fcntl(asker->fd, F_SETFL, O_NONBLOCK);
    setsockopt(asker->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(load_epoll, asker->fd, asker, EPOLLIN);
}

static void ask(Asker *asker) {
    asker->in_body = asker->is_chunked = false;
    asker->head_have = asker->left = 0;
    memset(asker->tail, 0, sizeof asker->tail);
    asker->asked_us = now_us();
    asker->last_us = 0;
    asker->is_waiting = true;
    for (size_t sent = 0; sent < request_size;) {
        ssize_t n = send(asker->fd, request + sent, request_size - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) { usleep(100); continue; }
        if (n < 0) return;
        sent += (size_t)n;
    }
}

/* Whether the answer is whole. */
static bool hear(Asker *asker, const char *bytes, size_t size) {
    if (!asker->in_body) {
        size_t room = sizeof asker->head - 1 - asker->head_have, take_bytes = size < room ? size : room;
        memcpy(asker->head + asker->head_have, bytes, take_bytes);
        asker->head_have += take_bytes;
        asker->head[asker->head_have] = 0;
        char *end = strstr(asker->head, "\r\n\r\n");
        if (!end) return false;
        asker->in_body = true;
        if (strncmp(asker->head + 9, "200", 3)) errors++;
        char *length = strcasestr(asker->head, "\r\ncontent-length:");
        asker->is_chunked = !(length && length < end);
        asker->left = asker->is_chunked ? 0 : (size_t)atol(length + 17);
        size_t before = asker->head_have - take_bytes, head = (size_t)(end + 4 - asker->head);
        bytes += head - before;
        size -= head - before;
    }
    if (!asker->is_chunked) {
        asker->left -= size < asker->left ? size : asker->left;
        return !asker->left;
    }
    for (size_t i = size > 7 ? size - 7 : 0; i < size; i++) {
        memmove(asker->tail, asker->tail + 1, 6);
        asker->tail[6] = bytes[i];
    }
    return !memcmp(asker->tail, "\r\n0\r\n\r\n", 7);
}

static void load(char **argv) {
    raise_limit();
    there = address_of(argv[0], argv[1]);
    int count = atoi(argv[3]);
    double seconds = atof(argv[4]);
    const char *body = argv[6];
    char key[512] = "";
    if (*argv[5]) snprintf(key, sizeof key, "authorization: Bearer %s\r\n", argv[5]);
    request = malloc(strlen(body) + 2048);
    request_size = (size_t)sprintf(request,
        "POST %s HTTP/1.1\r\nhost: %s:%s\r\ncontent-type: application/json\r\naccept: */*\r\nuser-agent: wire\r\n%scontent-length: %zu\r\n\r\n%s",
        argv[2], argv[0], argv[1], key, strlen(body), body);
    load_epoll = epoll_create1(0);
    Asker *askers = calloc((size_t)count, sizeof *askers);
    for (int i = 0; i < count; i++) open_line(&askers[i]);
    int64_t began = now_us(), until = began + (int64_t)(seconds * 1e6);
    for (int i = 0; i < count; i++) ask(&askers[i]);
    struct epoll_event events[EVENTS];
    static char buffer[BUFFER];
    int busy = count;
    while (busy && now_us() < until + 30000000) {
        int found = epoll_wait(load_epoll, events, EVENTS, 1000);
        for (int i = 0; i < found; i++) {
            Asker *asker = events[i].data.ptr;
            ssize_t got = recv(asker->fd, buffer, sizeof buffer, 0);
            if (got < 0 && errno == EAGAIN) continue;
            int64_t now = now_us();
            bool is_over = got <= 0;
            if (is_over) {
                errors++;
                close(asker->fd);
                if (now < until) open_line(asker);
            } else {
                if (!asker->last_us) sample(&first, now - asker->asked_us);
                else sample(&gaps, now - asker->last_us);
                asker->last_us = now;
                if (hear(asker, buffer, (size_t)got)) {
                    sample(&whole, now - asker->asked_us);
                    is_over = true;
                }
            }
            if (!is_over) continue;
            asker->is_waiting = false;
            if (now < until) ask(asker);
            else busy--;
        }
    }
    double took = (double)(now_us() - began) / 1e6;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    printf("{\"requests\":%zu,\"errors\":%zu,\"unfinished\":%d,\"seconds\":%.3f,\"cpu_s\":%.3f,"
           "\"p50_us\":%.0f,\"p99_us\":%.0f,\"first_p50_us\":%.0f,\"first_p99_us\":%.0f,\"gap_p50_us\":%.0f,\"gap_p99_us\":%.0f}\n",
           whole.count, errors, busy, took, cpu, at_share(&whole, .5), at_share(&whole, .99), at_share(&first, .5),
           at_share(&first, .99), at_share(&gaps, .5), at_share(&gaps, .99));
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "serve")) serve(argv[2], argv[3]);
    if (argc == 9 && !strcmp(argv[1], "load")) { load(argv + 2); return 0; }
    fprintf(stderr, "usage: wire serve HOST PORT | wire load HOST PORT PATH CONNECTIONS SECONDS KEY BODY\n");
    return 2;
}
