/* SPDX-License-Identifier: Apache-2.0 */
/*
 * revoked.c -- the node's key, and the lists of revoked ones that gateways bring
 *
 *	gateway --{"op":"revoked","lists":PEM}--> signed by an authority of our file? newer than ours?
 *	                                            yes: another key for the port (split_port_rekey), and on_revoked,
 *	                                            by which the program keeps them across its end
 *
 *	{"op":"revoked"} --> {"lists":PEM}, those that it has
 *
 * The node verifies them itself: a gateway is believed in nothing here, an old list does nothing, and a newer one that
 * lacks who was revoked gives nobody back (secure/revoked.h).
 */
#include "revoked.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/secure.h"
#include "node_state.h"

static void
revoked_on_cut(const struct split_qp *qp, const char *why, void *arg)
{
	struct node *node = arg;

	SN_COUNT(node, connections_revoked, 1);
	log_limited(LOG_WARN, "audit: closed a connection address=%s peer=%s: %s", node->address,
	    split_qp_peer(qp), why);
}

/* @key, a share that becomes the node's. */
static void
revoked_set_key(struct node *node, struct split_key *key)
{
	split_key_free(node->key);
	node->key = key;
	if (node->port != NULL)
		(void)split_port_rekey(node->port, key, revoked_on_cut, node);
	if (split_key_is_revoked(key))
		log_error(
		    "node: its own key was revoked: gateways that know refuse it: cleave key issue, then "
		    "reload");
}

static void
revoked_tell(const struct node *node, const struct split_key *next)
{
	struct split_revoked_gaps gaps;

	log_info("audit: a list of revoked keys has come node=%u", node->super.node_id);
	split_key_revoked_gaps(next, &gaps);
	if (gaps.lacked_count > 0)
		log_warn("audit: it lacks %" PRIu32 " revoked before, which stay so, but %" PRIu32
			 " that there is no room for node=%u serials=\"%s\"",
		    gaps.lacked_count, gaps.lost_count, node->super.node_id, gaps.serials);
}

static json_t *
revoked_say(const struct node *node)
{
	size_t bytes;

	return json_pack("{s:s}", "lists",
	    node->key == NULL ? "" : split_key_revoked(node->key, &bytes));
}

json_t *
sn_revoked_take(struct node *node, const json_t *request, int *ret_rc)
{
	const char *lists = json_string_value(json_object_get(request, "lists"));
	char why[SPLIT_KEY_WHY_BYTES_MAX] = "the member \"lists\" is no string";
	struct split_key *next = NULL;

	*ret_rc = 0;
	if (json_object_get(request, "lists") == NULL)
		return revoked_say(node);
	*ret_rc = -EINVAL;
	if (node->key == NULL) {
		(void)snprintf(why, sizeof(why), "this node has no key");
	} else if (lists != NULL) {
		next = split_key_revoke(node->key, lists, strlen(lists), why);
		*ret_rc = next != NULL || errno == EALREADY ? 0 : -errno;
	}
	if (next != NULL) {
		revoked_tell(node, next);
		revoked_set_key(node, next);
		if (node->options.on_revoked != NULL)
			node->options.on_revoked(node->options.arg);
		if (why[0] != '\0')
			*ret_rc = -EKEYREJECTED; /* not all of them: it shall come again */
	}
	if (*ret_rc == 0)
		return json_object();
	log_limited(LOG_WARN, "node: a list of revoked keys was not taken: %s", why);
	return json_pack("{s:s}", "error", why);
}

int
sn_revoked_rekey(struct node *node, const struct split_key *key)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *next;
	const char *lists;
	size_t bytes;

	assert(node->key != NULL && key != NULL);
	lists = split_key_revoked(node->key, &bytes);
	next = bytes == 0 ? NULL : split_key_revoke(key, lists, bytes, why);
	/* The new file's lists, or authorities, may leave nothing of ours to take. */
	if (next == NULL && bytes != 0 && errno == ENOMEM)
		return -ENOMEM;
	revoked_set_key(node, next != NULL ? next : split_key_share(key));
	return 0;
}
