/* Tries what a tracked repository must not do: intruder read PATH | write PATH | unix PATH | tcp PORT */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int attempt(const char *what, const char *where) {
    if (!strcmp(what, "read")) return open(where, O_RDONLY);
    if (!strcmp(what, "write")) return open(where, O_WRONLY | O_CREAT, 0666);
    if (!strcmp(what, "unix")) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strncpy(address.sun_path, where, sizeof address.sun_path - 1);
        return connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(where))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int result = attempt(argv[1], argv[2]);
    printf("%s %s: %s\n", argv[1], argv[2], result < 0 ? strerror(errno) : "done");
    return 0;
}
