/* Tries what a tracked repository must not do:
   intruder read PATH | write PATH | unix PATH | tcp PORT | namespace unshare, clone, clone3 or several */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int namespace(const char *call) {
    if (!strcmp(call, "unshare")) return unshare(CLONE_NEWUSER);
    if (!strcmp(call, "several")) return unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID);
    struct clone_args arguments = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long child = !strcmp(call, "clone3") ? syscall(SYS_clone3, &arguments, sizeof arguments)
                                         : syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (!child) _exit(0);
    return child;
}

static int attempt(const char *what, const char *where) {
    if (!strcmp(what, "read")) return open(where, O_RDONLY);
    if (!strcmp(what, "write")) return open(where, O_WRONLY | O_CREAT, 0666);
    if (!strcmp(what, "namespace")) return namespace(where);
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
