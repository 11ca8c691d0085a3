/* A key-value server of one file for the tests: RESP over TCP and a unix socket, enough commands for the driver.
 *
 * usage: tiny --port N --unixsocket PATH --dir PATH [--behaviour WORD]
 * behaviours: silent (listens, never answers), leaves (ends at once), wrong (finds no key), crash (dies at a GET),
 * tired (dies at GET number TIRED_AFTER) */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CONNECTIONS 256
#define SLOTS (1 << 17)
#define INPUT (1 << 16)
#define WORDS 8  /* of a request that are looked at */
#define TIRED_AFTER 2000

struct connection { int fd; size_t used; char input[INPUT]; };
static struct connection connections[CONNECTIONS];
static int open_connections;
static struct { char *key, *value; } table[SLOTS];
static long keys, gets;
static const char *behaviour = "";

static char **slot(const char *key, int create) {
    unsigned hash = 5381;
    for (const char *c = key; *c; c++) hash = hash * 33 + (unsigned char)*c;
    for (unsigned i = hash % SLOTS;; i = (i + 1) % SLOTS) {
        if (table[i].key && !strcmp(table[i].key, key)) return &table[i].value;
        if (!table[i].key) {
            if (!create) return NULL;
            table[i].key = strdup(key);
            keys++;
            return &table[i].value;
        }
    }
}

static int answer(char *out, int argc, char **argv) {
    if (!strcasecmp(argv[0], "PING")) return sprintf(out, "+PONG\r\n");
    if (!strcasecmp(argv[0], "DBSIZE")) return sprintf(out, ":%ld\r\n", keys);
    if (!strcasecmp(argv[0], "INFO")) {
        char text[100];
        int length = sprintf(text, "# Keyspace\r\ndb0:keys=%ld,expires=0,avg_ttl=0\r\n", keys);
        return sprintf(out, "$%d\r\n%s\r\n", length, text);
    }
    if (!strcasecmp(argv[0], "SET") && argc > 2) {
        char **value = slot(argv[1], 1);
        free(*value);
        *value = strdup(argv[2]);
        return sprintf(out, "+OK\r\n");
    }
    if (!strcasecmp(argv[0], "GET") && argc > 1) {
        char **value = slot(argv[1], 0);
        if (!strcmp(behaviour, "tired") && ++gets == TIRED_AFTER) { fprintf(stderr, "tiny: so tired\n"); abort(); }
        if (!strcmp(behaviour, "crash")) { fprintf(stderr, "tiny: broken on purpose\n"); abort(); }
        if (!value || !strcmp(behaviour, "wrong")) return sprintf(out, "$-1\r\n");
        return sprintf(out, "$%zu\r\n%s\r\n", strlen(*value), *value);
    }
    if (!strcasecmp(argv[0], "INCR") && argc > 1) {
        char **value = slot(argv[1], 1), number[32];
        snprintf(number, sizeof number, "%ld", (*value ? atol(*value) : 0) + 1);
        free(*value);
        *value = strdup(number);
        return sprintf(out, ":%s\r\n", number);
    }
    return sprintf(out, "-ERR unknown command\r\n");
}

/* One whole request at the start of the input: its length, 0 if it is not all there yet. */
static size_t request(char *input, size_t used, int *argc, char **argv) {
    char *at = input, *end = input + used, *line = memchr(at, '\n', used), *ends[WORDS];
    if (!line || *at != '*') return 0;
    *argc = atoi(at + 1);
    at = line + 1;
    for (int i = 0; i < *argc; i++) {
        line = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        if (!line) return 0;
        long length = atol(at + 1);
        if (line + 1 + length + 2 > end) return 0;
        if (i < WORDS) {
            argv[i] = line + 1;
            ends[i] = line + 1 + length;
        }
        at = line + 1 + length + 2;
    }
    for (int i = 0; i < *argc && i < WORDS; i++) *ends[i] = 0;
    return (size_t)(at - input);
}

static void serve(struct connection *c) {
    static char out[4 * INPUT];
    ssize_t got = read(c->fd, c->input + c->used, INPUT - 1 - c->used);
    if (got <= 0) { close(c->fd); c->fd = -1; return; }
    c->used += (size_t)got;
    c->input[c->used] = 0;
    if (!strcmp(behaviour, "silent")) { c->used = 0; return; }
    size_t done = 0, written = 0, length;
    char *argv[WORDS];
    int argc;
    while ((length = request(c->input + done, c->used - done, &argc, argv)) > 0) {
        written += (size_t)answer(out + written, argc, argv);
        done += length;
    }
    memmove(c->input, c->input + done, c->used - done);
    c->used -= done;
    if (written && write(c->fd, out, written) < 0) perror("tiny: write");
}

static int listen_tcp(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 128)) { perror("tiny: bind"); exit(1); }
    return fd;
}

static int listen_unix(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 128)) { perror("tiny: bind"); exit(1); }
    return fd;
}

int main(int argc, char **argv) {
    int port = 0;
    const char *path = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--port")) port = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--unixsocket")) path = argv[i + 1];
        if (!strcmp(argv[i], "--behaviour")) behaviour = argv[i + 1];
    }
    signal(SIGPIPE, SIG_IGN);
    if (!strcmp(behaviour, "leaves")) { fprintf(stderr, "tiny: no reason to stay\n"); return 3; }
    struct pollfd watched[CONNECTIONS + 2] = {{.fd = listen_tcp(port), .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    if (path) watched[1].fd = listen_unix(path);
    for (;;) {
        for (int i = 0; i < open_connections; i++)
            watched[i + 2] = (struct pollfd){.fd = connections[i].fd, .events = POLLIN};
        if (poll(watched, (nfds_t)open_connections + 2, -1) < 0 && errno != EINTR) return 1;
        for (int i = 0; i < open_connections; i++)
            if (watched[i + 2].revents) serve(&connections[i]);
        for (int i = 0; i < 2; i++)
            if (watched[i].revents && open_connections < CONNECTIONS)
                connections[open_connections++] = (struct connection){.fd = accept(watched[i].fd, NULL, NULL)};
        for (int i = 0; i < open_connections; i++)
            if (connections[i].fd < 0) connections[i--] = connections[--open_connections];
    }
}
