/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_client.c -- what a process knows of an etcd; see etcd_client.h */
#include "meta/etcd_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "cleave/meta.h"
#include "common/alloc.h"
#include "meta/etcd_password.h"

#define TRY_NS NUM_S(1)
#define TOLD_NS NUM_S(10)
/* Whoever answers at an address may be another etcd's after that long: it takes time to put it there. */
#define PROVEN_NS NUM_S(10)
#define REVISION_BITS 48u
#define ETCD_NAMES_BYTES 512u /* of all endpoints, in a line for people */

static_assert(ETCD_REVISION_MAX == (UINT64_C(1) << REVISION_BITS) - 1, "a version has both");
static_assert(ETCD_REVISION_MAX == META_VERSION_COMMON, "each process counts generations");

/* ---- what is known ---- */

void
etcd_client_key(const struct etcd_client *client, char out[ETCD_KEY_BYTES_MAX], const char *kind,
    const char *name)
{
	int count = snprintf(out, ETCD_KEY_BYTES_MAX, "%s%s%s", client->prefix, kind, name);

	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(count > 0 && (uint32_t)count < ETCD_KEY_BYTES_MAX);
}

const char *
etcd_client_name(const struct etcd_client *client, const char *key, const char *kind)
{
	size_t prefix_bytes = strlen(client->prefix), kind_bytes = strlen(kind);

	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	if (strncmp(key, client->prefix, prefix_bytes) != 0 ||
	    strncmp(key + prefix_bytes, kind, kind_bytes) != 0)
		return NULL;
	return key + prefix_bytes + kind_bytes;
}

uint64_t
etcd_client_version(const struct etcd_client *client, uint64_t mod_revision)
{
	assert(mod_revision > 0);
	assert(mod_revision <= ETCD_REVISION_MAX);
	return (uint64_t)client->generation << REVISION_BITS | mod_revision;
}

bool
etcd_client_revision(const struct etcd_client *client, uint64_t version, uint64_t *ret_revision)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	*ret_revision = version & ETCD_REVISION_MAX;
	/* Absent is absent in each generation. */
	return version == 0 || version >> REVISION_BITS == client->generation;
}

const char *
etcd_client_endpoint_name(const struct etcd_client *client, uint32_t endpoint)
{
	assert(endpoint < client->endpoint_count);
	return client->endpoints[endpoint].name;
}

void
etcd_client_trouble(struct etcd_client *client, uint32_t endpoint, const char *text)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(text != NULL);
	assert(endpoint < client->endpoint_count);
	/* Trouble that does not go away is not hidden by one that may. */
	if (!client->is_refused)
		(void)snprintf(client->trouble, sizeof(client->trouble), "%s: %s",
		    etcd_client_endpoint_name(client, endpoint), text);
}

/* Trouble that no other member cures: for people, at once. */
void
etcd_client_refuse(struct etcd_client *client, uint32_t endpoint, const char *text)
{
	assert(endpoint < client->endpoint_count);
	client->is_refused = false;
	etcd_client_trouble(client, endpoint, text);
	client->is_refused = true;
	log_limited(LOG_ERROR, "meta: etcd: %s", client->trouble);
}

void
etcd_client_suspect(struct etcd_client *client, uint32_t endpoint, const char *text)
{
	uint32_t count = 0;

	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(endpoint < client->endpoint_count);
	client->endpoints[endpoint].is_no_etcd = true;
	for (uint32_t i = 0; i < client->endpoint_count; i++)
		count += client->endpoints[i].is_no_etcd;
	if (count == client->endpoint_count)
		etcd_client_refuse(client, endpoint, text);
}

void
etcd_client_skip(struct etcd_client *client, enum etcd_line line, uint32_t endpoint)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(line < ETCD_LINE_NR);
	assert(endpoint < client->endpoint_count);
	if (client->current[line] == endpoint)
		client->current[line] = (endpoint + 1) % client->endpoint_count;
}

bool
etcd_client_is_proven(const struct etcd_client *client, uint32_t endpoint)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(endpoint < client->endpoint_count);
	return loop_now_ns(client->loop) < client->endpoints[endpoint].proven_until_ns;
}

void
etcd_client_prove(struct etcd_client *client, uint32_t endpoint, bool is_ours)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(endpoint < client->endpoint_count);
	client->endpoints[endpoint].proven_until_ns =
	    is_ours ? loop_now_ns(client->loop) + PROVEN_NS : 0;
}

bool
etcd_client_is_ours(struct etcd_client *client, uint32_t endpoint, uint64_t cluster_id)
{
	char text[ETCD_TROUBLE_BYTES];

	assert(cluster_id != 0);
	assert(endpoint < client->endpoint_count);
	if (client->cluster_id == 0)
		client->cluster_id = cluster_id;
	if (client->cluster_id == cluster_id)
		return true;
	etcd_client_prove(client, endpoint, false);
	(void)snprintf(text, sizeof(text),
	    "it belongs to another etcd, %016" PRIx64 ", than the members that answered before, "
	    "%016" PRIx64 ": list the members of one etcd alone",
	    cluster_id, client->cluster_id);
	etcd_client_refuse(client, endpoint, text);
	return false;
}

/* A try succeeded: the store is there. */
void
etcd_client_be_good(struct etcd_client *client, uint32_t endpoint)
{
	assert(client->told_ns == 0 || client->failed_ns != 0);
	etcd_client_prove(client, endpoint, true);
	client->endpoints[endpoint].is_no_etcd = false;
	if (client->told_ns > client->failed_ns)
		log_info("meta: etcd answers again endpoint=%s silent_s=%" PRIu64,
		    etcd_client_endpoint_name(client, endpoint),
		    etcd_client_silent_ns(client) / NUM_S(1));
	client->failed_ns = client->told_ns = 0;
	client->trouble[0] = '\0';
	client->is_refused = false;
}

bool
etcd_client_hear(struct etcd_client *client, uint32_t endpoint, uint64_t cluster_id,
    uint64_t revision)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(endpoint < client->endpoint_count);
	if (!etcd_client_is_ours(client, endpoint, cluster_id))
		return false;
	client->revision = num_max(client->revision, revision);
	return true;
}

void
etcd_client_set_back(struct etcd_client *client, uint64_t revision, uint64_t known_revision,
    uint64_t newest_revision)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(revision < known_revision);
	log_error(
	    "meta: etcd was set back to a backup: all that is remembered of it is void, and the lease "
	    "is given up revision=%" PRIu64 " known_revision=%" PRIu64,
	    revision, known_revision);
	client->generation = (client->generation + 1) % ETCD_GENERATIONS_MAX;
	client->revision = newest_revision;
	loop_defer(client->loop, &client->generation_task);
}

static void
client_on_generation(struct loop_task *task, void *arg)
{
	struct etcd_client *client = arg;

	(void)task;
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	client->on_generation(client->arg);
}

uint64_t
etcd_client_silent_ns(const struct etcd_client *client)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(client->failed_ns <= num_max(loop_now_ns(client->loop), 1));
	return client->failed_ns == 0 ? 0 : loop_now_ns(client->loop) - client->failed_ns;
}

void
etcd_client_tell_silence(struct etcd_client *client)
{
	uint64_t now_ns = loop_now_ns(client->loop);
	char names[ETCD_NAMES_BYTES] = "";
	size_t count = 0;

	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	if (client->failed_ns == 0)
		client->failed_ns = num_max(now_ns, 1);
	if (now_ns - num_max(client->failed_ns, client->told_ns) < TOLD_NS)
		return;
	client->told_ns = now_ns;
	for (uint32_t i = 0; i < client->endpoint_count && count < sizeof(names); i++)
		count += (size_t)snprintf(names + count, sizeof(names) - count, "%s%s",
		    i == 0 ? "" : ",", etcd_client_endpoint_name(client, i));
	log_warn("meta: etcd unreachable for_s=%" PRIu64 " endpoints=%s last=%s",
	    etcd_client_silent_ns(client) / NUM_S(1), names, client->trouble);
}

void
etcd_client_forget_token(struct etcd_client *client)
{
	mt_free(client->token);
	client->token = NULL;
}

/* Several calls may be out when a password ends: the first one that is refused reads the file. */
bool
etcd_client_password_again(struct etcd_client *client, uint32_t number, char *ret_why)
{
	char password[ETCD_PASSWORD_BYTES];
	char *copy;
	int rc;

	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(number <= client->password_number);
	ret_why[0] = '\0';
	if (client->password_file == NULL || number != client->password_number)
		return number != client->password_number;
	rc = etcd_password_read(client->password_file, password);
	copy = rc == 0 ? mt_strdup(password) : NULL;
	if (rc != 0 || copy == NULL || strcmp(copy, client->password) == 0) {
		(void)snprintf(ret_why, ETCD_TROUBLE_BYTES, "%s: %s", client->password_file,
		    rc != 0            ? etcd_password_strerror(rc)
			: copy == NULL ? "out of memory"
				       : "put the new password there");
		mt_free(copy);
		return false;
	}
	mt_free(client->password);
	client->password = copy;
	client->password_number++;
	log_info("meta: etcd: the password was read anew file=%s", client->password_file);
	return true;
}

/* ---- the client ---- */

static int
client_copy_names(struct etcd_client *client, const struct etcd_client_options *options)
{
	size_t prefix_bytes = options->prefix == NULL ? 0 : strlen(options->prefix);

	assert(client->endpoint_count == 0);
	assert(client->user == NULL);
	if (prefix_bytes == 0 || prefix_bytes >= sizeof(client->prefix) ||
	    options->prefix[prefix_bytes - 1] != '/')
		return -EINVAL;
	if (options->endpoint_count == 0 || options->endpoint_count > ETCD_ENDPOINTS_MAX)
		return -EINVAL;
	memcpy(client->prefix, options->prefix, prefix_bytes + 1);
	for (uint32_t i = 0; i < options->endpoint_count; i++)
		(void)snprintf(client->endpoints[i].name, sizeof(client->endpoints[i].name), "%s",
		    options->endpoints[i]);
	client->endpoint_count = options->endpoint_count;
	if (options->user == NULL)
		return 0;
	client->user = mt_strdup(options->user);
	client->password = mt_strdup(options->password == NULL ? "" : options->password);
	if (options->password_file != NULL) {
		client->password_file = mt_strdup(options->password_file);
		if (client->password_file == NULL)
			return -ENOMEM;
	}
	return client->user == NULL || client->password == NULL ? -ENOMEM : 0;
}

int
etcd_client_init(struct etcd_client *client, const struct etcd_client_options *options)
{
	uint32_t first;
	int rc;

	assert(options->loop != NULL);
	assert(options->http != NULL);
	assert(options->on_generation != NULL);
	assert(options->on_change != NULL);
	*client = (struct etcd_client){ .magic = ETCD_CLIENT_MAGIC,
		.loop = options->loop,
		.http = options->http,
		.try_ns = options->try_ns == 0 ? TRY_NS : options->try_ns,
		.on_generation = options->on_generation,
		.on_change = options->on_change,
		.arg = options->arg };
	list_init(&client->calls);
	loop_task_init(&client->generation_task, client_on_generation, client);
	rc = client_copy_names(client, options);
	if (rc != 0) {
		etcd_client_fini(client);
		return rc;
	}
	/* Not all processes at the first one. */
	first = (uint32_t)loop_random_below(client->loop, client->endpoint_count);
	for (uint32_t i = 0; i < ETCD_LINE_NR; i++)
		client->current[i] = (first + i) % client->endpoint_count;
	return 0;
}

void
etcd_client_fini(struct etcd_client *client)
{
	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(client->call_count == 0);
	loop_task_cancel(client->loop, &client->generation_task);
	etcd_client_forget_token(client);
	mt_free(client->user);
	mt_free(client->password);
	mt_free(client->password_file);
	client->magic = 0;
}
