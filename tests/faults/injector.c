/* Injects a fault into a process at one of its write events.
 *
 * This library is preloaded before the C library. It counts every call that changes a file or a directory under
 * one directory. At the chosen event it kills the process (halfway through, if the event is a write), or makes
 * this and all later events fail as on a full disk or a read-only file system.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING, KILL, FULL, READ_ONLY };

static char root[PATH_MAX];
static size_t root_length;
static int mode;
static long at, seen;

void faults_arm(const char *directory, int fault, long event) {
    root_length = strlen(directory);
    memcpy(root, directory, root_length + 1);
    mode = fault;
    at = event;
    __atomic_store_n(&seen, 0, __ATOMIC_SEQ_CST);
}

long faults_seen(void) { return __atomic_load_n(&seen, __ATOMIC_SEQ_CST); }

static int under(const char *path) {
    return root_length && strncmp(path, root, root_length) == 0;
}

static int known_file(int descriptor) {
    char link[64], path[PATH_MAX];
    if (!root_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return under(path);
}

static int known_path(int directory, const char *path) {
    if (!root_length || !path) return 0;
    if (path[0] == '/') return under(path);
    if (directory != AT_FDCWD) return known_file(directory);
    char here[PATH_MAX];
    return getcwd(here, sizeof here) && under(here);
}

/* Return the action for an event: 0 to proceed, 1 to kill the process, or a negative error number.
 * `grows` is 1 if the event needs space on the disk. */
static int event(int grows) {
    long number = __atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
    if (mode == NOTHING || number < at) return 0;
    if (mode == KILL) return number == at ? 1 : 0;
    if (mode == FULL) return grows ? -ENOSPC : 0;
    return -EROFS;
}

static void end(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

#define NEXT(name) static typeof(name) *next; if (!next) next = (typeof(name) *)dlsym(RTLD_NEXT, #name)
#define GUARD(is_known, grows) \
    if (is_known) { int found = event(grows); if (found == 1) end(); if (found < 0) { errno = -found; return -1; } }
#define HALF(call) do { if (count > 1) { count /= 2; (void)!(call); } end(); } while (0)

ssize_t write(int file, const void *data, size_t count) {
    NEXT(write);
    if (known_file(file)) {
        int found = event(1);
        if (found == 1) HALF(next(file, data, count));
        if (found < 0) {
            /* A disk becomes full during a write: half of the first one fits. */
            if (found == -ENOSPC && faults_seen() == at && count > 1) return next(file, data, count / 2);
            errno = -found;
            return -1;
        }
    }
    return next(file, data, count);
}

ssize_t pwrite64(int file, const void *data, size_t count, off64_t place) {
    NEXT(pwrite64);
    if (known_file(file)) {
        int found = event(1);
        if (found == 1) HALF(next(file, data, count, place));
        if (found < 0) { errno = -found; return -1; }
    }
    return next(file, data, count, place);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(writev);
    if (known_file(file)) {
        int found = event(1);
        if (found == 1) HALF(next(file, parts, count));
        if (found < 0) { errno = -found; return -1; }
    }
    return next(file, parts, count);
}

/* The streams of the C library do not call the `write` above. */
size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
    NEXT(fwrite);
    if (root_length && known_file(fileno(file))) {
        int found = event(1);
        if (found == 1) { next(data, size, count / 2, file); fflush(file); end(); }
        if (found < 0) { errno = -found; return 0; }
    }
    return next(data, size, count, file);
}

#define OPENER(name, directory_parameter, directory, call) \
    int name(directory_parameter const char *path, int flags, ...) { \
        mode_t bits = 0; \
        NEXT(name); \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); bits = va_arg(rest, mode_t); va_end(rest); } \
        int writes = (flags & O_ACCMODE) != O_RDONLY && known_path(directory, path); \
        if (writes) { \
            int there = faccessat(directory, path, F_OK, 0) == 0; \
            GUARD(1, !there) \
        } \
        return call; \
    }
#define COMMA ,
OPENER(open, , AT_FDCWD, next(path, flags, bits))
OPENER(open64, , AT_FDCWD, next(path, flags, bits))
OPENER(openat, int directory COMMA, directory, next(directory, path, flags, bits))
OPENER(openat64, int directory COMMA, directory, next(directory, path, flags, bits))

int rename(const char *from, const char *to) {
    NEXT(rename);
    GUARD(known_path(AT_FDCWD, from) || known_path(AT_FDCWD, to), 0)
    return next(from, to);
}
int renameat(int a, const char *from, int b, const char *to) {
    NEXT(renameat);
    GUARD(known_path(a, from) || known_path(b, to), 0)
    return next(a, from, b, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    NEXT(renameat2);
    GUARD(known_path(a, from) || known_path(b, to), 0)
    return next(a, from, b, to, flags);
}
int unlink(const char *path) { NEXT(unlink); GUARD(known_path(AT_FDCWD, path), 0) return next(path); }
int unlinkat(int directory, const char *path, int flags) {
    NEXT(unlinkat);
    GUARD(known_path(directory, path), 0)
    return next(directory, path, flags);
}
int rmdir(const char *path) { NEXT(rmdir); GUARD(known_path(AT_FDCWD, path), 0) return next(path); }
int mkdir(const char *path, mode_t bits) {
    NEXT(mkdir);
    GUARD(known_path(AT_FDCWD, path), 1)
    return next(path, bits);
}
int mkdirat(int directory, const char *path, mode_t bits) {
    NEXT(mkdirat);
    GUARD(known_path(directory, path), 1)
    return next(directory, path, bits);
}
int chmod(const char *path, mode_t bits) { NEXT(chmod); GUARD(known_path(AT_FDCWD, path), 0) return next(path, bits); }
int fsync(int file) { NEXT(fsync); GUARD(known_file(file), 0) return next(file); }
int ftruncate64(int file, off64_t length) { NEXT(ftruncate64); GUARD(known_file(file), 1) return next(file, length); }
