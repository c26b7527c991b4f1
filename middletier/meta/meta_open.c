/* SPDX-License-Identifier: Apache-2.0 */
/* meta_open.c -- a metadata store, wherever --meta says that it is; see meta_open.h */
#include "meta/meta_open.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "meta/etcd_curl.h"
#include "meta/etcd_password.h"
#include "meta/meta_etcd.h"
#include "meta/meta_lmdb.h"

#define OPEN_NS NUM_S(30)
#define OPEN_LOOK_NS NUM_MS(50)
#define URL_BYTES 200u
#define PREFIX_BYTES 128u
#define BY_BYTES 128u
#define HOST_BYTES 96u
#define PROCESS_BYTES 160u
#define ETCD_SCHEME "etcd://"
#define ETCDS_SCHEME "etcds://"
#define LMDB_SCHEME "lmdb://"
#define PREFIX_DEFAULT "cleave"

/* An etcd, as --meta names it. */
struct etcd_place {
	char urls[ETCD_ENDPOINTS_MAX][URL_BYTES];
	uint32_t count;
	char prefix[PREFIX_BYTES];
};

static bool
has_scheme(const char *place, const char *scheme)
{
	return strncmp(place, scheme, strlen(scheme)) == 0;
}

const char *
meta_where_directory(const struct meta_where *where)
{
	assert(where->place != NULL);
	if (has_scheme(where->place, ETCD_SCHEME) || has_scheme(where->place, ETCDS_SCHEME))
		return NULL;
	return has_scheme(where->place, LMDB_SCHEME) ? where->place + strlen(LMDB_SCHEME)
						     : where->place;
}

/* "HOST:PORT", of @bytes; NULL, or what is wrong. */
static const char *
endpoint_read(const char *text, size_t bytes, bool is_tls, char ret_url[URL_BYTES])
{
	const char *colon = memrchr(text, ':', bytes);
	size_t port_bytes = colon == NULL ? 0 : (size_t)(text + bytes - colon - 1);

	if (bytes == 0 || colon == text || port_bytes == 0 || port_bytes > 5 ||
	    strspn(colon + 1, "0123456789") < port_bytes)
		return "HOST:PORT is wanted of each member of the etcd, as in etcd://a:2379,b:2379";
	if (strcspn(text, "@?# ") < bytes)
		return "a member's HOST:PORT has no user, and no options: see --meta-user";
	if ((size_t)snprintf(ret_url, URL_BYTES, "%s://%.*s", is_tls ? "https" : "http", (int)bytes,
		text) >= URL_BYTES)
		return "a member's HOST:PORT is too long";
	return NULL;
}

static const char *
prefix_read(const char *text, uint64_t cluster_id, char ret_prefix[PREFIX_BYTES])
{
	size_t bytes;

	while (*text == '/')
		text++;
	bytes = strlen(text);
	while (bytes > 0 && text[bytes - 1] == '/')
		bytes--;
	if (bytes == 0) {
		text = PREFIX_DEFAULT;
		bytes = strlen(text);
	}
	if ((size_t)snprintf(ret_prefix, PREFIX_BYTES, "/%.*s/%016" PRIx64 "/", (int)bytes, text,
		cluster_id) >= PREFIX_BYTES)
		return "the PREFIX behind the members is too long";
	return NULL;
}

static const char *
place_read(const struct meta_where *where, struct etcd_place *ret_place)
{
	bool is_tls = has_scheme(where->place, ETCDS_SCHEME);
	const char *text = where->place + strlen(is_tls ? ETCDS_SCHEME : ETCD_SCHEME);
	const char *wrong = NULL;

	assert(meta_where_directory(where) == NULL);
	*ret_place = (struct etcd_place){ 0 };
	for (;;) {
		size_t bytes = strcspn(text, ",/");

		if (ret_place->count == ETCD_ENDPOINTS_MAX)
			return "an etcd has at most 16 members";
		wrong = endpoint_read(text, bytes, is_tls, ret_place->urls[ret_place->count++]);
		text += bytes;
		if (wrong != NULL || *text != ',')
			break;
		text++;
	}
	if (wrong == NULL)
		wrong = prefix_read(text, where->cluster_id, ret_place->prefix);
	return wrong;
}

const char *
meta_where_check(const struct meta_where *where)
{
	const char *directory = meta_where_directory(where);
	bool is_tls = has_scheme(where->place, ETCDS_SCHEME);
	struct etcd_place place;

	if (directory != NULL && directory[0] == '\0')
		return "a directory is wanted";
	if (directory == where->place && strstr(directory, "://") != NULL)
		return "a directory, lmdb://DIR, etcd://HOST:PORT or etcds://HOST:PORT is wanted";
	if (directory != NULL && (where->user != NULL || where->ca != NULL || where->cert != NULL))
		return "a directory has no users and no certificates: --meta-... go with an etcd";
	if (directory != NULL)
		return NULL;
	if (!is_tls && (where->ca != NULL || where->cert != NULL))
		return "certificates go with etcds://, which is TLS, and not with etcd://";
	if ((where->cert == NULL) != (where->key == NULL))
		return "--meta-cert and --meta-key go together";
	if ((where->user == NULL) != (where->password_file == NULL))
		return "--meta-user and --meta-password-file go together";
	return place_read(where, &place);
}

/* ---- an etcd ---- */

static void
by_write(const struct meta_where *where, char ret_by[BY_BYTES])
{
	char host[65] = "";

	(void)gethostname(host, sizeof(host) - 1);
	if (where->gateway_id != 0)
		(void)snprintf(ret_by, BY_BYTES, "gateway %" PRIu64 " on %s, process %d",
		    where->gateway_id, host, (int)getpid());
	else
		(void)snprintf(ret_by, BY_BYTES, "cleave on %s, process %d", host, (int)getpid());
}

/* ---- which process of which host ---- */

/* The word that follows @count others behind the program's name, which may have any bytes. */
static bool
stat_word(const char *stat, uint32_t count, char ret_word[32])
{
	const char *at = strrchr(stat, ')');

	while (at != NULL && count-- > 0) {
		at = strchr(at, ' ');
		at = at == NULL ? NULL : at + 1;
	}
	return at != NULL && sscanf(at, "%31s", ret_word) == 1;
}

static bool
file_read(const char *path, char *out, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t count;

	assert(bytes > 0);
	if (fd < 0)
		return false;
	count = read(fd, out, bytes - 1);
	(void)close(fd); /* only read from */
	out[count > 0 ? count : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return count > 0;
}

/* Which boot of which machine, and which of its sets of process numbers: in another nothing can be told. */
static bool
host_write(char ret_host[HOST_BYTES])
{
	char boot[48], numbers[48] = "";

	if (!file_read("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) ||
	    readlink("/proc/self/ns/pid", numbers, sizeof(numbers) - 1) <= 0)
		return false;
	(void)snprintf(ret_host, HOST_BYTES, "%s %s", boot, numbers);
	return true;
}

/* When process @pid began, in ticks since the boot. False: that is not to be seen. */
static bool
process_began(long pid, char ret_when[32])
{
	char path[48], stat[512];

	assert(pid > 0);
	(void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	/* Word 22 of proc(5). */
	return file_read(path, stat, sizeof(stat)) && stat_word(stat, 20, ret_when);
}

/* "BOOT PIDS NUMBER WHEN"; "": it cannot be told. */
static void
process_write(char ret_process[PROCESS_BYTES])
{
	char host[HOST_BYTES], when[32];

	ret_process[0] = '\0';
	if (host_write(host) && process_began(getpid(), when))
		(void)snprintf(ret_process, PROCESS_BYTES, "%s %d %s", host, (int)getpid(), when);
}

/*
 * A process of this boot and these numbers that is not there: its number is free, or another one's, which it
 * becomes after the last thread has left. A process that is hidden from us (hidepid) is none of these.
 */
static bool
process_is_dead(const char *process)
{
	char host[HOST_BYTES], when[32] = "", now[32];
	size_t host_bytes;
	long pid = 0;

	if (!host_write(host))
		return false;
	host_bytes = strlen(host);
	if (strncmp(process, host, host_bytes) != 0 ||
	    sscanf(process + host_bytes, " %ld %31s", &pid, when) != 2 || pid <= 0)
		return false;
	if (kill((pid_t)pid, 0) != 0 && errno == ESRCH)
		return true;
	return process_began(pid, now) && strcmp(now, when) != 0;
}

/* ---- waiting ---- */

/* Runs the loop until something is so, and looks now and then. */
struct waiting {
	struct loop *loop;
	struct meta *meta;
	struct loop_timer timer;
	uint64_t until_ns;
	/* A claim, or a release. */
	bool is_claimed;
	int rc;
	char other[2 * BY_BYTES];
};

static void
waiting_on_timer(struct loop_timer *timer, void *arg)
{
	struct waiting *waiting = arg;

	loop_timer_start(waiting->loop, timer, OPEN_LOOK_NS);
}

static bool
store_has_answered(void *arg)
{
	struct waiting *waiting = arg;
	bool is_refused;

	assert(waiting->meta != NULL);
	(void)meta_etcd_trouble(waiting->meta, &is_refused);
	return is_refused || meta_etcd_is_ready(waiting->meta) ||
	    loop_now_ns(waiting->loop) >= waiting->until_ns;
}

static void
waiting_run(struct waiting *waiting, bool (*until)(void *arg))
{
	assert(!loop_is_running(waiting->loop));
	loop_timer_init(&waiting->timer, waiting_on_timer, waiting);
	loop_timer_start(waiting->loop, &waiting->timer, OPEN_LOOK_NS);
	(void)loop_run(waiting->loop, until, waiting);
	loop_timer_stop(waiting->loop, &waiting->timer);
}

static struct meta *
etcd_make(const struct meta_where *where, const struct etcd_place *place, const char *password,
    struct loop *loop)
{
	const char *urls[ETCD_ENDPOINTS_MAX];
	struct etcd_http *http;
	char by[BY_BYTES], process[PROCESS_BYTES];

	assert(place->count > 0);
	assert(place->count <= ETCD_ENDPOINTS_MAX);
	for (uint32_t i = 0; i < place->count; i++)
		urls[i] = place->urls[i];
	by_write(where, by);
	process_write(process);
	http = etcd_curl_open(&(struct etcd_curl_options){ .loop = loop,
	    .urls = urls,
	    .url_count = place->count,
	    .ca = where->ca,
	    .cert = where->cert,
	    .key = where->key });
	if (http == NULL)
		return NULL;
	return meta_etcd_open(&(struct meta_etcd_options){ .loop = loop,
	    .http = http,
	    .endpoints = urls,
	    .endpoint_count = place->count,
	    .prefix = place->prefix,
	    .user = where->user,
	    .password = password,
	    .password_file = where->password_file,
	    .by = by,
	    .process = process,
	    .is_dead = process_is_dead,
	    .compacts = !where->keeps_history && where->gateway_id != 0,
	    .has_place = true,
	    .measures = where->gateway_id != 0 });
}

/* The file that cannot be read, of those that libcurl would not name; NULL: all can. */
static const char *
unreadable_file(const struct meta_where *where)
{
	const char *const files[] = { where->ca, where->cert, where->key };

	for (uint32_t i = 0; i < NUM_COUNT(files); i++)
		if (files[i] != NULL && access(files[i], R_OK) != 0)
			return files[i];
	return NULL;
}

static struct meta *
etcd_open(const struct meta_where *where, struct loop *loop, char *ret_error, size_t error_bytes)
{
	struct waiting waiting = { .loop = loop, .until_ns = loop_now_ns(loop) + OPEN_NS };
	char password[ETCD_PASSWORD_BYTES] = "";
	struct etcd_place place;
	const char *wrong = place_read(where, &place);
	bool is_refused;
	int rc;

	assert(error_bytes > 0);
	if (wrong != NULL) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", where->place, wrong);
		return NULL;
	}
	wrong = unreadable_file(where);
	if (wrong != NULL) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", wrong, strerror(errno));
		return NULL;
	}
	rc = where->password_file == NULL ? 0 : etcd_password_read(where->password_file, password);
	if (rc != 0) {
		(void)snprintf(ret_error, error_bytes, "%s: %s", where->password_file,
		    etcd_password_strerror(rc));
		return NULL;
	}
	waiting.meta = etcd_make(where, &place, password, loop);
	if (waiting.meta == NULL) {
		(void)snprintf(ret_error, error_bytes, "out of memory");
		return NULL;
	}
	waiting_run(&waiting, store_has_answered);
	if (meta_etcd_is_ready(waiting.meta))
		return waiting.meta;
	wrong = meta_etcd_trouble(waiting.meta, &is_refused);
	(void)snprintf(ret_error, error_bytes, "%s: %s: %s", where->place,
	    is_refused ? "the etcd refuses us" : "the etcd does not answer",
	    wrong[0] == '\0' ? "stopped while waiting for it" : wrong);
	waiting.meta->ops->close(waiting.meta);
	return NULL;
}

struct meta *
meta_open(const struct meta_where *where, struct loop *loop, char *ret_error, size_t error_bytes)
{
	const char *directory = meta_where_directory(where);

	assert(error_bytes > 0);
	if (directory != NULL)
		return meta_lmdb_open(loop, directory, ret_error, error_bytes);
	return etcd_open(where, loop, ret_error, error_bytes);
}

/* ---- who is which gateway ---- */

/* Outlives meta_open_claim: it is told of a loss, too. One a process, as there is one gateway. */
struct claim {
	struct waiting *waiting; /* NULL: it is ours */
	void (*on_lost)(void *arg);
	void *arg;
};

static struct claim process_claim;

static void
claim_on_answer(int rc, const char *other, void *arg)
{
	struct claim *claim = arg;
	struct waiting *waiting = claim->waiting;

	if (waiting == NULL) {
		assert(rc != 0);
		claim->on_lost(claim->arg);
		return;
	}
	waiting->is_claimed = true;
	waiting->rc = rc;
	(void)snprintf(waiting->other, sizeof(waiting->other), "%s", other);
}

static bool
claim_is_answered(void *arg)
{
	const struct waiting *waiting = arg;
	bool is_refused;

	assert(waiting->meta != NULL);
	(void)meta_etcd_trouble(waiting->meta, &is_refused);
	return waiting->is_claimed || is_refused;
}

int
meta_open_claim(const struct meta_where *where, struct meta *meta, struct loop *loop,
    uint64_t lease_ns, void (*on_lost)(void *arg), void *arg, char *ret_error, size_t error_bytes)
{
	struct waiting waiting = { .loop = loop, .meta = meta, .rc = -EINTR };
	const char *trouble = "";
	bool is_refused;
	int rc;

	assert(where->gateway_id != 0);
	assert(on_lost != NULL);
	if (meta_where_directory(where) != NULL)
		return meta_lmdb_claim_id(meta, where->gateway_id, ret_error, error_bytes);
	process_claim = (struct claim){ .waiting = &waiting, .on_lost = on_lost, .arg = arg };
	rc = meta_etcd_claim(meta, where->gateway_id, lease_ns, claim_on_answer, &process_claim);
	if (rc == 0) {
		waiting_run(&waiting, claim_is_answered);
		trouble = meta_etcd_trouble(meta, &is_refused);
		rc = !waiting.is_claimed && is_refused ? -EACCES : waiting.rc;
	}
	process_claim.waiting = NULL;
	if (rc == -EBUSY)
		(void)snprintf(ret_error, error_bytes, "gateway %" PRIu64 " runs already: %s",
		    where->gateway_id, waiting.other);
	else if (rc == -EACCES)
		(void)snprintf(ret_error, error_bytes, "%s: the etcd refuses us: %s", where->place,
		    trouble);
	else if (rc != 0)
		(void)snprintf(ret_error, error_bytes, "gateway %" PRIu64 ": %s", where->gateway_id,
		    rc == -EINTR ? "stopped while waiting for the claim of this id"
				 : strerror(-rc));
	return rc;
}

/* ---- what a gateway that has died left ---- */

static void
release_on_answer(int rc, const char *other, void *arg)
{
	struct waiting *waiting = arg;

	assert(!waiting->is_claimed);
	waiting->is_claimed = true;
	waiting->rc = rc;
	(void)snprintf(waiting->other, sizeof(waiting->other), "%s", other);
}

/* The store's opening has ended the leases of all processes that are dead. Whoever has the id's lock lives. */
static int
directory_release(struct meta *meta, uint64_t gateway_id, char *ret_text, size_t text_bytes)
{
	int rc = meta_lmdb_claim_id(meta, gateway_id, ret_text, text_bytes);

	assert(gateway_id != 0);
	if (rc == 0)
		(void)snprintf(ret_text, text_bytes,
		    "gateway %" PRIu64 " is gone, and its lease with it", gateway_id);
	return rc;
}

int
meta_open_release(const struct meta_where *where, struct meta *meta, struct loop *loop,
    uint64_t gateway_id, char *ret_text, size_t text_bytes)
{
	struct waiting waiting = { .loop = loop, .meta = meta, .rc = -EINTR };
	int rc;

	assert(gateway_id != 0);
	if (meta_where_directory(where) != NULL)
		return directory_release(meta, gateway_id, ret_text, text_bytes);
	rc = meta_etcd_release(meta, gateway_id, release_on_answer, &waiting);
	if (rc == 0) {
		waiting_run(&waiting, claim_is_answered);
		rc = waiting.rc;
	}
	if (rc == 0)
		(void)snprintf(ret_text, text_bytes,
		    "gateway %" PRIu64 " is gone, and its lease was ended: it was %s", gateway_id,
		    waiting.other);
	else if (rc == -ENOENT)
		(void)snprintf(ret_text, text_bytes,
		    "gateway %" PRIu64 " holds nothing: there is nothing to release", gateway_id);
	else if (rc == -EBUSY)
		(void)snprintf(ret_text, text_bytes,
		    "gateway %" PRIu64
		    " runs, or it cannot be told from here that it has ended: %s",
		    gateway_id, waiting.other);
	else
		(void)snprintf(ret_text, text_bytes,
		    "gateway %" PRIu64 ": %s: what it holds ends with the time of its lease",
		    gateway_id, strerror(-rc));
	return rc == -ENOENT ? 0 : rc;
}
