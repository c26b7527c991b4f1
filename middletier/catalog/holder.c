/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder.c -- who has a volume open for writing: for people, in the volume's key
 *
 * A client's name, its address, the port that it asked at, and when. cluster/holding.c finds out whether they
 * are still there.
 */
#include "catalog/holder.h"

#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "base/check.h"
#include "base/num.h"
#include "base/reader.h"

int
mt_json_put_holder(json_t *object, const struct mt_volume *volume)
{
	const struct mt_holder *holder = &volume->holder;
	json_t *text;

	assert(json_is_object(object));
	if (volume->session_id == 0)
		return 0;
	text = json_pack("{s:s, s:s, s:s, s:I}", "client", holder->client, "address",
	    holder->address, "gateway", holder->gateway, "since_s", (json_int_t)holder->since_s);
	return json_object_set_new(object, "holder", text);
}

/* A text that is not there, or too long, is for people alone: nothing is refused for it. */
void
mt_json_take_holder(const json_t *object, struct mt_holder *ret_holder)
{
	struct reader reader = { 0 };

	ret_holder->since_s = reader_u64(&reader, object, "since_s", UINT64_MAX);
	reader_cut(object, "client", ret_holder->client, sizeof(ret_holder->client));
	reader_cut(object, "address", ret_holder->address, sizeof(ret_holder->address));
	reader_cut(object, "gateway", ret_holder->gateway, sizeof(ret_holder->gateway));
}

void
mt_holder_text(const struct mt_volume *volume, char *out, uint32_t bytes)
{
	const struct mt_holder *holder = &volume->holder;
	time_t since = (time_t)holder->since_s;
	char when[32] = "";
	struct tm tm;

	assert(bytes > 0);
	if (holder->since_s == 0 || gmtime_r(&since, &tm) == NULL ||
	    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		(void)snprintf(when, sizeof(when), "a time not known");
	(void)snprintf(out, bytes, "%s at %s since %s (gateway %s)",
	    holder->client[0] == '\0' ? "a client without a name" : holder->client,
	    holder->address[0] == '\0' ? "an address not known" : holder->address, when,
	    holder->gateway[0] == '\0' ? "not known" : holder->gateway);
}
