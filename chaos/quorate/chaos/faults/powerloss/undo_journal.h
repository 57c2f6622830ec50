/* The undo journal: how to take back what no sync has covered yet.
 *
 * An entry is written before the change it can undo. Killed in between, a process leaves an entry for a
 * change that was never made, and undoing that changes nothing. An entry is named by its offset in the
 * file, so entries are ordered, across restarts of the process too. Files and directories are named by
 * their inodes: a rename, of the file or of a directory above it, does not change what is meant.
 *
 * Read by journal.py, which knows the same layout.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define HEADING "powerlss" /* of the file; so that no entry has the number 0 */
#define HEADING_BYTES 8
#define MAGIC 0x4c535750u /* of an entry */

enum kind {
    CHANGE = 1, /* content of `inode`: its size was `size`, and from `where` on stood the payload */
    SYNC = 2,   /* all entries of `inode` before `where` are void: they are on the device */
    BORN = 3,   /* `inode` is new: entries before this one were about an earlier owner of the number */
    MAKE = 4,   /* a name in the directory `inode`: the payload */
    REMOVE = 5, /* a name in the directory `inode`: the payload; what had it is held under `held` */
    RENAME = 6, /* in the directory `inode`: first name to second name, in the directory `where`. `size` is
                 * the inode that moved; what had the second name is held under `held`, unless that is 0 */
};

struct entry {
    uint32_t magic;
    uint32_t kind;
    uint64_t inode;
    uint64_t where;
    uint64_t size;
    uint64_t held;
    uint32_t payload_bytes;
    uint32_t first_name_bytes;
};

static int journal_fd = -1;
static uint64_t journal_end;

/* A shim that cannot keep its word must not go on: losses would be missed without anybody knowing. */
static void die(const char *what) {
    fprintf(stderr, "powerloss shim: %s: %s\n", what, strerror(errno));
    abort();
}

/* The last entry may be cut short: its process was killed. The change it announced was never made. */
static void open_journal(const char *path) {
    journal_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (journal_fd < 0) die(path);
    struct stat status;
    if (syscall(SYS_pwrite64, journal_fd, HEADING, HEADING_BYTES, 0) != HEADING_BYTES) die(path);
    if (fstat(journal_fd, &status) != 0) die(path);
    struct entry entry;
    journal_end = HEADING_BYTES;
    while (syscall(SYS_pread64, journal_fd, &entry, sizeof entry, journal_end) == (long)sizeof entry) {
        uint64_t next = journal_end + sizeof entry + entry.payload_bytes;
        if (entry.magic != MAGIC || next > (uint64_t)status.st_size) break;
        journal_end = next;
    }
    if (syscall(SYS_ftruncate, journal_fd, journal_end) != 0) die(path);
}

static void append(struct entry *entry, const void *first, size_t first_bytes, const void *second,
                   size_t second_bytes) {
    entry->magic = MAGIC;
    entry->first_name_bytes = (uint32_t)first_bytes;
    entry->payload_bytes = (uint32_t)(first_bytes + second_bytes);
    struct iovec parts[] = {
        {entry, sizeof *entry}, {(void *)first, first_bytes}, {(void *)second, second_bytes}};
    long total = (long)(sizeof *entry + first_bytes + second_bytes);
    if (syscall(SYS_pwritev, journal_fd, parts, 3, journal_end, 0) != total) die("the undo journal");
    journal_end += (uint64_t)total;
}
