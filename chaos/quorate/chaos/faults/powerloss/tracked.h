/* What the shim knows: which directory is its business, which inodes in it, and what it keeps of what was
 * removed. All of it under the mutex, except where it says otherwise.
 */
#include "undo_journal.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>

#define NO_FLOOR UINT64_MAX
#define BUCKETS 4096

static char root[PATH_MAX];
static size_t root_length; /* 0: the shim does nothing */
static dev_t root_device;
static char side[PATH_MAX - 64];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* -- what is known of each inode that was opened below the root */

struct node {
    uint64_t inode;
    uint64_t floor;
    struct node *next;
};
static struct node *nodes[BUCKETS];

static struct node *find(uint64_t inode) {
    struct node *node = nodes[inode % BUCKETS];
    while (node && node->inode != inode) node = node->next;
    return node;
}

static struct node *track(uint64_t inode) {
    struct node *node = find(inode);
    if (node) return node;
    node = malloc(sizeof *node);
    if (!node) die("memory");
    *node = (struct node){inode, NO_FLOOR, nodes[inode % BUCKETS]};
    return nodes[inode % BUCKETS] = node;
}

static void born(uint64_t inode) {
    append(&(struct entry){.kind = BORN, .inode = inode}, NULL, 0, NULL, 0);
    track(inode)->floor = NO_FLOOR;
}

/* The node behind a descriptor that is ours, else NULL. Under the mutex. */
static struct node *node_of(int fd, struct stat *status) {
    if (fstat(fd, status) != 0 || status->st_dev != root_device) return NULL;
    return find(status->st_ino);
}

/* Before anything else, without the mutex: sockets and pipes pass here too. */
static bool may_be_ours(int fd) {
    struct stat status;
    return root_length && fstat(fd, &status) == 0 && status.st_dev == root_device &&
           (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
}

/* -- what was removed and could come back: kept until the removal is durable */

struct held {
    uint64_t directory, number, inode;
    struct held *next;
};
static struct held *all_held;

static void held_path(uint64_t number, char *path) {
    snprintf(path, PATH_MAX, "%s/held/%llu", side, (unsigned long long)number);
}

static void hold(uint64_t directory, uint64_t number, uint64_t inode) {
    struct held *held = malloc(sizeof *held);
    if (!held) die("memory");
    *held = (struct held){directory, number, inode, all_held};
    all_held = held;
}

/* Of a directory that was held, all that had been in it goes with it. */
static void release(uint64_t directory, uint64_t before) {
    for (struct held **place = &all_held; *place;) {
        struct held *held = *place;
        if (held->directory != directory || held->number >= before) {
            place = &held->next;
            continue;
        }
        char path[PATH_MAX];
        held_path(held->number, path);
        *place = held->next;
        if (syscall(SYS_unlinkat, AT_FDCWD, path, 0) != 0 &&
            syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR) == 0) {
            release(held->inode, UINT64_MAX);
            place = &all_held; /* the list has changed under us */
        }
        free(held);
    }
}

/* -- paths */

static bool flag(const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", side, name);
    return faccessat(AT_FDCWD, path, F_OK, 0) == 0;
}

/* True and `full` filled in if the path is the root or lies below it. */
static bool is_below_root(int directory_fd, const char *path, char *full) {
    if (!root_length || !path) return false;
    if (path[0] == '/') {
        if (strlen(path) >= PATH_MAX) return false;
        strcpy(full, path);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory_fd);
        const char *from = directory_fd == AT_FDCWD ? "/proc/self/cwd" : link;
        ssize_t length = readlink(from, full, PATH_MAX - 1);
        if (length < 0 || (size_t)length + strlen(path) + 2 > PATH_MAX) return false;
        sprintf(full + length, "/%s", path);
    }
    return strncmp(full, root, root_length) == 0 && (full[root_length] == 0 || full[root_length] == '/');
}

/* The directory's inode and the last name; false if there is no such directory (the call will say so). */
static bool split(const char *full, uint64_t *directory, const char **name) {
    char parent[PATH_MAX];
    struct stat status;
    *name = strrchr(full, '/') + 1;
    snprintf(parent, sizeof parent, "%.*s", (int)(*name - full), full);
    if (!**name || fstatat(AT_FDCWD, parent, &status, 0) != 0) return false;
    *directory = status.st_ino;
    return true;
}

static bool note_make(const char *full) {
    struct entry entry = {.kind = MAKE};
    const char *name;
    if (!split(full, &entry.inode, &name)) return false;
    append(&entry, name, strlen(name), NULL, 0);
    return true;
}
