/* A page cache that can be lost: power loss for real processes, by LD_PRELOAD.
 *
 * A process that is killed loses nothing it wrote: the kernel keeps the pages. This shim stands between the
 * process and libc, and notes for every change below one directory how to take it back (undo_journal.h). A
 * sync voids the notes it covers. "Power loss" is then: kill the process, and let undo.py apply what
 * is left of the notes, the latest first. What remains is what had been synced, and nothing else.
 *
 * What counts as durable is the strictest reading of POSIX: content by a sync of the file, begun after the
 * write returned; a name by a sync of its directory. (ext4 happens to write more.)
 *
 * Invariants:
 *   - An entry is in the journal before its change is made. SYNC is there after the device has answered.
 *   - From `floor` on, nothing of a file needs to be noted: an entry that no sync covers cuts it there.
 *     This is what makes an append that follows another one free. A sync that begins takes the floor away,
 *     as writes during it are not covered by it.
 *   - Changes happen under one mutex, together with their notes. Syncs wait for the device outside of it.
 *
 * Not covered, because nothing here uses it: mmap, fallocate, io_uring, links, O_SYNC. Such changes would
 * survive a power loss that should have taken them.
 *
 * Two more faults need the same place between process and disk: a file "full" in the side directory makes
 * the disk one without room, a file "sync-fails" one whose syncs fail. A boot id is served from there too.
 */
#define _GNU_SOURCE
#include "tracked.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/statvfs.h>

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define EXPORT __attribute__((visibility("default")))

/* -- content */

/* Before [position, position + length) is overwritten or cut off; `size` is the file's size now. */
static void note_change(int fd, struct node *node, uint64_t position, uint64_t length, uint64_t size) {
    if (position >= node->floor) return;
    uint64_t old_end = position + length < size ? position + length : size;
    uint64_t old_bytes = position < old_end ? old_end - position : 0;
    char *old = NULL;
    if (old_bytes) {
        char link[64]; /* the descriptor may be one that cannot read */
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        int reader = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
        if (reader < 0 || !(old = malloc(old_bytes))) die("what is about to be overwritten");
        for (uint64_t done = 0; done < old_bytes;) {
            long step = syscall(SYS_pread64, reader, old + done, old_bytes - done, position + done);
            if (step <= 0) die("what is about to be overwritten");
            done += (uint64_t)step;
        }
        close(reader);
    }
    struct entry entry = {.kind = CHANGE, .inode = node->inode, .where = position, .size = size};
    append(&entry, old, old_bytes, NULL, 0);
    free(old);
    if (size < node->floor) node->floor = size;
}

static int resize(int fd, struct node *node, uint64_t length, uint64_t size) {
    if (length > size && flag("full")) {
        errno = ENOSPC;
        return -1;
    }
    if (length < size) note_change(fd, node, length, size - length, size);
    if (length > size) note_change(fd, node, size, length - size, size);
    return (int)syscall(SYS_ftruncate, fd, length);
}

/* `position` < 0: at the cursor. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, off_t position, int flags) {
    struct stat status;
    struct node *node = node_of(fd, &status);
    if (node) {
        uint64_t length = 0, where = (uint64_t)position;
        for (int index = 0; index < count; index++) length += parts[index].iov_len;
        if (fcntl(fd, F_GETFL) & O_APPEND)
            where = (uint64_t)status.st_size;
        else if (position < 0)
            where = (uint64_t)lseek(fd, 0, SEEK_CUR);
        if (where + length > (uint64_t)status.st_size && flag("full")) {
            errno = ENOSPC;
            return -1;
        }
        note_change(fd, node, where, length, (uint64_t)status.st_size);
    }
    if (position < 0) return syscall(SYS_writev, fd, parts, count);
    return syscall(SYS_pwritev2, fd, parts, count, position, 0, flags);
}

static ssize_t locked_write(int fd, const struct iovec *parts, int count, off_t position, int flags) {
    if (!may_be_ours(fd)) {
        if (position < 0) return syscall(SYS_writev, fd, parts, count);
        return syscall(SYS_pwritev2, fd, parts, count, position, 0, flags);
    }
    pthread_mutex_lock(&mutex);
    ssize_t result = write_parts(fd, parts, count, position, flags);
    pthread_mutex_unlock(&mutex);
    return result;
}

static int locked_sync(int fd, long call) {
    if (!may_be_ours(fd)) return (int)syscall(call, fd);
    struct stat status;
    pthread_mutex_lock(&mutex);
    struct node *node = node_of(fd, &status);
    uint64_t covered = journal_end;
    if (node) node->floor = NO_FLOOR;
    pthread_mutex_unlock(&mutex);
    if (node && flag("sync-fails")) {
        errno = EIO;
        return -1;
    }
    int result = (int)syscall(call, fd);
    if (node && result == 0) {
        pthread_mutex_lock(&mutex);
        append(&(struct entry){.kind = SYNC, .inode = node->inode, .where = covered}, NULL, 0, NULL, 0);
        if (S_ISDIR(status.st_mode)) release(node->inode, covered);
        pthread_mutex_unlock(&mutex);
    }
    return result;
}

/* -- names */

static int open_below(const char *full, int flags, mode_t mode) {
    int fd = (int)syscall(SYS_openat, AT_FDCWD, full, flags & ~(O_CREAT | O_EXCL | O_TRUNC), 0);
    struct stat status;
    if (fd < 0 && errno == ENOENT && (flags & O_CREAT)) {
        if (flag("full")) {
            errno = ENOSPC;
            return -1;
        }
        bool is_noted = note_make(full);
        fd = (int)syscall(SYS_openat, AT_FDCWD, full, flags & ~O_TRUNC, mode);
        if (fd >= 0 && is_noted && fstat(fd, &status) == 0) born(status.st_ino);
        return fd;
    }
    if (fd >= 0 && (flags & O_CREAT) && (flags & O_EXCL)) {
        close(fd);
        errno = EEXIST;
        return -1;
    }
    if (fd >= 0 && fstat(fd, &status) == 0) {
        struct node *node = track(status.st_ino);
        if ((flags & O_TRUNC) && S_ISREG(status.st_mode)) resize(fd, node, 0, (uint64_t)status.st_size);
    }
    return fd;
}

static int locked_open(int directory_fd, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    if (root_length && path && strcmp(path, BOOT_ID) == 0 && flag("boot_id")) {
        snprintf(full, sizeof full, "%s/boot_id", side);
        return (int)syscall(SYS_openat, AT_FDCWD, full, flags, mode);
    }
    if (!is_below_root(directory_fd, path, full))
        return (int)syscall(SYS_openat, directory_fd, path, flags, mode);
    pthread_mutex_lock(&mutex);
    int fd = open_below(full, flags, mode);
    pthread_mutex_unlock(&mutex);
    return fd;
}

static bool is_empty(const char *path) {
    DIR *directory = opendir(path);
    bool found = false;
    struct dirent *each;
    while (directory && !found && (each = readdir(directory)))
        found = strcmp(each->d_name, ".") != 0 && strcmp(each->d_name, "..") != 0;
    if (directory) closedir(directory);
    return !found;
}

static int rename_now(const char *source, const char *target) {
    return (int)syscall(SYS_renameat2, AT_FDCWD, source, AT_FDCWD, target, 0);
}

/* The name goes; what had it moves to where it is held. */
static int remove_below(const char *full, bool is_directory) {
    struct stat status;
    struct entry entry = {.kind = REMOVE, .held = journal_end};
    const char *name;
    if (fstatat(AT_FDCWD, full, &status, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    if (is_directory && S_ISDIR(status.st_mode) && !is_empty(full)) errno = ENOTEMPTY;
    else if (is_directory && !S_ISDIR(status.st_mode)) errno = ENOTDIR;
    else if (!is_directory && S_ISDIR(status.st_mode)) errno = EISDIR;
    else if (split(full, &entry.inode, &name)) {
        char held[PATH_MAX];
        held_path(entry.held, held);
        syscall(SYS_unlinkat, AT_FDCWD, held, 0); /* of a process that was killed before its entry */
        append(&entry, name, strlen(name), NULL, 0);
        hold(entry.inode, entry.held, status.st_ino);
        return rename_now(full, held);
    }
    return -1;
}

static int locked_remove(int directory_fd, const char *path, int flags) {
    char full[PATH_MAX];
    if (!is_below_root(directory_fd, path, full)) return (int)syscall(SYS_unlinkat, directory_fd, path, flags);
    pthread_mutex_lock(&mutex);
    int result = remove_below(full, flags & AT_REMOVEDIR);
    pthread_mutex_unlock(&mutex);
    return result;
}

static int rename_below(const char *source, const char *target) {
    struct stat moved, replaced;
    struct entry entry = {.kind = RENAME};
    const char *first, *second;
    if (fstatat(AT_FDCWD, source, &moved, AT_SYMLINK_NOFOLLOW) != 0) return -1;
    if (!split(source, &entry.inode, &first) || !split(target, &entry.where, &second)) return -1;
    entry.size = moved.st_ino;
    bool is_replacing = fstatat(AT_FDCWD, target, &replaced, AT_SYMLINK_NOFOLLOW) == 0;
    bool is_same = is_replacing && replaced.st_ino == moved.st_ino;
    if (is_same || (is_replacing && S_ISDIR(replaced.st_mode) != S_ISDIR(moved.st_mode)))
        return rename_now(source, target); /* changes nothing, or fails */
    if (is_replacing && S_ISDIR(replaced.st_mode)) {
        if (remove_below(target, true) != 0) return -1;
    } else if (is_replacing) {
        char held[PATH_MAX];
        entry.held = journal_end;
        held_path(entry.held, held);
        syscall(SYS_unlinkat, AT_FDCWD, held, 0);
        if (syscall(SYS_linkat, AT_FDCWD, target, AT_FDCWD, held, 0) != 0) die(held);
        hold(entry.where, entry.held, replaced.st_ino);
    }
    append(&entry, first, strlen(first), second, strlen(second));
    return rename_now(source, target);
}

static int locked_rename(int source_fd, const char *source, int target_fd, const char *target) {
    char from[PATH_MAX], to[PATH_MAX];
    bool is_from = is_below_root(source_fd, source, from), is_to = is_below_root(target_fd, target, to);
    if (!is_from && !is_to) return (int)syscall(SYS_renameat2, source_fd, source, target_fd, target, 0);
    if (is_from != is_to) {
        errno = EXDEV; /* half of it would be ours to undo */
        return -1;
    }
    pthread_mutex_lock(&mutex);
    int result = rename_below(from, to);
    pthread_mutex_unlock(&mutex);
    return result;
}

static int locked_mkdir(int directory_fd, const char *path, mode_t mode) {
    char full[PATH_MAX];
    struct stat status;
    if (!is_below_root(directory_fd, path, full) || fstatat(AT_FDCWD, full, &status, 0) == 0)
        return (int)syscall(SYS_mkdirat, directory_fd, path, mode);
    pthread_mutex_lock(&mutex);
    bool is_noted = note_make(full);
    int result = (int)syscall(SYS_mkdirat, AT_FDCWD, full, mode);
    if (result == 0 && is_noted && fstatat(AT_FDCWD, full, &status, 0) == 0) born(status.st_ino);
    pthread_mutex_unlock(&mutex);
    return result;
}

/* -- in the place of libc's functions. On 64-bit Linux the names with 64 mean the same. */

#define ALSO(name, other) EXPORT __typeof__(name) other __attribute__((alias(#name)))

static mode_t mode_in(int flags, va_list arguments) {
    return flags & O_CREAT ? (mode_t)va_arg(arguments, int) : 0;
}

EXPORT int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_in(flags, arguments);
    va_end(arguments);
    return locked_open(AT_FDCWD, path, flags, mode);
}
ALSO(open, open64);

EXPORT int openat(int directory, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_in(flags, arguments);
    va_end(arguments);
    return locked_open(directory, path, flags, mode);
}
ALSO(openat, openat64);

EXPORT ssize_t write(int fd, const void *bytes, size_t count) {
    return locked_write(fd, &(struct iovec){(void *)bytes, count}, 1, -1, 0);
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count) {
    return locked_write(fd, parts, count, -1, 0);
}

static bool is_position(off_t position) {
    if (position < 0) errno = EINVAL;
    return position >= 0;
}

EXPORT ssize_t pwrite(int fd, const void *bytes, size_t count, off_t position) {
    if (!is_position(position)) return -1;
    return locked_write(fd, &(struct iovec){(void *)bytes, count}, 1, position, 0);
}
ALSO(pwrite, pwrite64);

EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t position) {
    return is_position(position) ? locked_write(fd, parts, count, position, 0) : -1;
}
ALSO(pwritev, pwritev64);

EXPORT ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t position, int flags) {
    return locked_write(fd, parts, count, position, flags);
}
ALSO(pwritev2, pwritev64v2);

EXPORT int ftruncate(int fd, off_t length) {
    if (length < 0 || !may_be_ours(fd)) return (int)syscall(SYS_ftruncate, fd, length);
    struct stat status;
    pthread_mutex_lock(&mutex);
    struct node *node = node_of(fd, &status);
    int result = node ? resize(fd, node, (uint64_t)length, (uint64_t)status.st_size)
                      : (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_unlock(&mutex);
    return result;
}
ALSO(ftruncate, ftruncate64);

EXPORT int fsync(int fd) { return locked_sync(fd, SYS_fsync); }
EXPORT int fdatasync(int fd) { return locked_sync(fd, SYS_fdatasync); }

EXPORT int rename(const char *source, const char *target) {
    return locked_rename(AT_FDCWD, source, AT_FDCWD, target);
}
EXPORT int renameat(int from, const char *source, int to, const char *target) {
    return locked_rename(from, source, to, target);
}

EXPORT int unlink(const char *path) { return locked_remove(AT_FDCWD, path, 0); }
EXPORT int rmdir(const char *path) { return locked_remove(AT_FDCWD, path, AT_REMOVEDIR); }
EXPORT int unlinkat(int directory, const char *path, int flags) {
    return locked_remove(directory, path, flags);
}

EXPORT int mkdir(const char *path, mode_t mode) { return locked_mkdir(AT_FDCWD, path, mode); }
EXPORT int mkdirat(int directory, const char *path, mode_t mode) {
    return locked_mkdir(directory, path, mode);
}

/* libc's own is reached by the descriptor, which we do not stand in for. */
EXPORT int statvfs64(const char *path, struct statvfs64 *result) {
    char full[PATH_MAX];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
    if (fd < 0) return -1;
    int status = fstatvfs64(fd, result);
    close(fd);
    if (status == 0 && is_below_root(AT_FDCWD, path, full) && flag("full"))
        result->f_bfree = result->f_bavail = 0;
    return status;
}
EXPORT int statvfs(const char *path, struct statvfs *result) {
    return statvfs64(path, (struct statvfs64 *)result);
}

__attribute__((constructor)) static void begin(void) {
    const char *below = getenv("POWERLOSS_ROOT"), *beside = getenv("POWERLOSS_SIDE");
    char path[PATH_MAX];
    struct stat status;
    if (!below || !beside || strlen(below) >= sizeof root || strlen(beside) >= sizeof side) return;
    strcpy(side, beside);
    if (fstatat(AT_FDCWD, below, &status, 0) != 0) die(below);
    root_device = status.st_dev;
    snprintf(path, sizeof path, "%s/journal", side);
    open_journal(path);
    track(status.st_ino);
    strcpy(root, below);
    root_length = strlen(root);
}
