/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_id.c -- see gateway_id.h */
#include "start/gateway_id.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "catalog/json.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"

#define PATH_BYTES 4096

static int
read_gateway_id(const char *path, uint64_t *ret_id)
{
	char text[32];
	ssize_t bytes;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	bytes = read(fd, text, sizeof(text) - 1);
	(void)close(fd); /* only read from */
	if (bytes < 0)
		return -EIO;
	text[bytes] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return mt_hex_parse(text, ret_id) == 0 && *ret_id != 0 ? 0 : -EBADMSG;
}

/* Written beside, flushed, then renamed: a half-written id is never seen. */
static int
write_gateway_id(const char *path, uint64_t id)
{
	char beside[PATH_BYTES], text[18];
	int fd, rc = 0;

	assert(id != 0);
	if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	(void)snprintf(text, sizeof(text), "%016" PRIx64 "\n", id);
	fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, text, 17) != 17 || fsync(fd) != 0)
		rc = -EIO;
	if (close(fd) != 0 || (rc == 0 && rename(beside, path) != 0))
		rc = -EIO;
	return rc;
}

static int
random_id(uint64_t *ret_id)
{
	do {
		if (getrandom(ret_id, sizeof(*ret_id), 0) != (ssize_t)sizeof(*ret_id))
			return -EIO;
	} while (*ret_id == 0);
	return 0;
}

int
mt_store_id_take(struct mt_gateway_options *options)
{
	int rc = random_id(&options->store_id.high);

	if (rc == 0)
		rc = random_id(&options->store_id.low);
	if (rc != 0)
		log_error("gateway: the system gives no random bytes for an id");
	return rc;
}

int
mt_gateway_ids_take(const char *meta, struct mt_gateway_options *options)
{
	char path[PATH_BYTES];
	int rc;

	assert(options->boot_id == 0 && (meta != NULL || options->gateway_id != 0));
	if (options->gateway_id != 0)
		return random_id(&options->boot_id);
	if (snprintf(path, sizeof(path), "%s/gateway-id", meta) >= (int)sizeof(path)) {
		log_error("gateway: --meta: '%s' is too long", meta);
		return -ENAMETOOLONG;
	}
	rc = read_gateway_id(path, &options->gateway_id);
	if (rc == -ENOENT) {
		rc = random_id(&options->gateway_id);
		if (rc == 0)
			rc = write_gateway_id(path, options->gateway_id);
	}
	if (rc == 0)
		rc = random_id(&options->boot_id);
	if (rc != 0)
		log_error("gateway: cannot use %s: %s", path,
		    rc == -EBADMSG ? "it does not hold 16 hex digits" : strerror(-rc));
	assert(rc != 0 || (options->gateway_id != 0 && options->boot_id != 0));
	return rc;
}
