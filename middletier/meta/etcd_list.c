/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_list.c -- all keys that begin so, of one moment, in pages; see etcd_list.h
 *
 *	paging --> done       the first page at the newest revision, the others at the first one's
 *	 ^  |
 *	 +--+                 the next page; from the first one again where that revision was compacted
 */
#include "meta/etcd_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "common/alloc.h"
#include "meta/etcd_call.h"
#include "meta/etcd_client.h"
#include "meta/etcd_json.h"
#include "meta/etcd_lease_value.h"
#include "meta/meta_txn.h"

#define LIST_MAGIC 0x5453494cu /* "LIST" */
#define LIST_NS NUM_S(5)
#define LIST_PAGE_ITEMS 256u
#define LIST_ROUNDS_MAX 3u

enum list_state { LIST_PAGING, LIST_DONE, LIST_STATE_NR };

static const struct sm_state list_table[LIST_STATE_NR] = {
	[LIST_PAGING] = { "paging", SM_TO(LIST_PAGING) | SM_TO(LIST_DONE), SM_INITIAL },
	[LIST_DONE] = { "done", 0, SM_FINAL },
};

struct list_page {
	struct loop_link link;
	struct etcd_answer answer;
};

struct etcd_list {
	uint32_t magic; /* LIST_MAGIC */
	struct loop_link link;
	struct sm sm;
	struct etcd_client *client;
	struct etcd_call *call;
	uint64_t deadline_ns;
	uint64_t revision; /* of the first page; 0: it is still to come */
	uint32_t round;
	struct loop_link pages;
	uint32_t item_count;
	char last_key[ETCD_KEY_BYTES_MAX]; /* whole, of the last page */
	meta_list_fn fn;
	void *arg;
	char prefix[];
};

static int list_ask(struct etcd_list *list);

static void
list_forget_pages(struct etcd_list *list)
{
	struct loop_link *link;

	while ((link = list_pop_front(&list->pages)) != NULL) {
		struct list_page *page = LIST_ENTRY(link, struct list_page, link);

		etcd_answer_fini(&page->answer);
		mt_free(page);
	}
	list->item_count = 0;
	list->revision = 0;
}

static void
list_free(struct etcd_list *list)
{
	CHECK_OBJ(list, LIST_MAGIC);
	list_remove(&list->link);
	etcd_call_cancel(list->call);
	list_forget_pages(list);
	list->magic = 0;
	mt_free(list);
}

/* Fills @items, as many as there are. False: a value is none of ours. */
static bool
list_read_items(const struct etcd_list *list, struct meta_item *items)
{
	const struct loop_link *link;
	uint32_t count = 0;

	for (link = list->pages.next; link != &list->pages; link = link->next) {
		const struct etcd_answer *answer =
		    &LIST_ENTRY(link, const struct list_page, link)->answer;

		for (uint32_t i = 0; i < answer->kv_count; i++) {
			const struct etcd_kv *kv = &answer->kvs[i];
			const char *key = etcd_client_name(list->client, kv->key, ETCD_KEYS);
			uint32_t head_bytes;
			uint64_t lease;

			if (key == NULL || !meta_key_is_valid(key) ||
			    strlen(kv->key) != kv->key_bytes || kv->mod_revision == 0 ||
			    etcd_lease_of(kv->value, kv->value_bytes, &lease, &head_bytes) != 0) {
				log_limited(LOG_ERROR,
				    "meta: etcd: a key was not written by cleave: remove it key=%s",
				    kv->key);
				return false;
			}
			assert(count < list->item_count);
			items[count++] = (struct meta_item){ .key = key,
				.value = kv->value + head_bytes,
				.value_bytes = kv->value_bytes - head_bytes,
				.version = etcd_client_version(list->client, kv->mod_revision) };
		}
	}
	assert(count == list->item_count);
	return true;
}

static void
list_finish(struct etcd_list *list, int rc)
{
	struct meta_item *items = NULL;
	meta_list_fn fn = list->fn;
	void *arg = list->arg;
	struct loop_link alone;

	assert(list->call == NULL);
	sm_move(&list->sm, LIST_DONE);
	if (rc == 0 && list->item_count > 0) {
		items = mt_calloc(list->item_count, sizeof(*items));
		if (items == NULL || !list_read_items(list, items))
			rc = -EIO;
	}
	/* Out of the store's sight: the handler may close that. */
	list_remove(&list->link);
	list_init(&alone);
	list_push_back(&alone, &list->link);
	fn(rc, rc == 0 ? items : NULL, rc == 0 ? list->item_count : 0, arg);
	mt_free(items);
	list_free(list);
}

/* Takes the answer. False: no memory. */
static bool
list_take_page(struct etcd_list *list, struct etcd_answer *answer)
{
	struct list_page *page = mt_calloc(1, sizeof(*page));
	const struct etcd_kv *last;

	assert(list->sm.state == LIST_PAGING);
	assert(list->call == NULL);
	if (page == NULL)
		return false;
	page->answer = *answer;
	*answer = (struct etcd_answer){ 0 };
	list_push_back(&list->pages, &page->link);
	list->item_count += page->answer.kv_count;
	if (list->revision == 0)
		list->revision = page->answer.revision;
	if (page->answer.kv_count == 0)
		return true;
	last = &page->answer.kvs[page->answer.kv_count - 1];
	(void)snprintf(list->last_key, sizeof(list->last_key), "%s", last->key);
	return true;
}

static void
list_on_page(int rc, struct etcd_answer *answer, void *arg)
{
	struct etcd_list *list = arg;
	bool has_more = answer->has_more && answer->kv_count > 0;

	CHECK_OBJ(list, LIST_MAGIC);
	assert(list->sm.state == LIST_PAGING);
	list->call = NULL;
	if (rc == -ERANGE && ++list->round < LIST_ROUNDS_MAX) {
		list_forget_pages(list);
		list->last_key[0] = '\0';
		has_more = true;
		rc = 0;
	} else if (rc == 0 && !list_take_page(list, answer)) {
		rc = -EIO;
	}
	if (rc == 0 && has_more) {
		sm_move(&list->sm, LIST_PAGING);
		rc = list_ask(list);
		if (rc == 0)
			return;
	}
	list_finish(list, rc == 0 || rc == -ETIMEDOUT ? rc : -EIO);
}

static void
list_write(const struct etcd_list *list, struct etcd_text *body)
{
	char key[ETCD_KEY_BYTES_MAX], text[96];

	assert(list->last_key[0] == '\0' || list->item_count > 0);
	etcd_client_key(list->client, key, ETCD_KEYS, list->prefix);
	etcd_text_add(body, "{");
	if (list->last_key[0] == '\0') {
		etcd_json_range(body, key, true);
	} else {
		/* From the key behind the last one: itself, and a NUL. */
		etcd_text_add(body, "\"key\":");
		etcd_text_base64(body, list->last_key, strlen(list->last_key), "", 1);
		etcd_text_add(body, ",");
		etcd_json_range_end(body, key);
	}
	(void)snprintf(text, sizeof(text), ",\"limit\":\"%u\",\"revision\":\"%" PRIu64 "\"}",
	    LIST_PAGE_ITEMS, list->revision);
	etcd_text_add(body, text);
}

/* 0, -ENOMEM, -ETIMEDOUT. */
static int
list_ask(struct etcd_list *list)
{
	uint64_t now_ns = loop_now_ns(list->client->loop);
	struct etcd_text body = { 0 };

	assert(list->call == NULL);
	if (now_ns >= list->deadline_ns)
		return -ETIMEDOUT;
	list_write(list, &body);
	list->call = etcd_call_start(list->client,
	    &(struct etcd_call_options){
		.line = meta_key_is_leased(list->prefix) ? ETCD_LINE_LEASE : ETCD_LINE_REQUEST,
		.path = "/v3/kv/range",
		.body = &body,
		.may_repeat = true,
		.is_linear = true,
		.budget_ns = list->deadline_ns - now_ns,
		.fn = list_on_page,
		.arg = list });
	return list->call == NULL ? -ENOMEM : 0;
}

int
etcd_list_start(struct etcd_client *client, struct loop_link *lists, const char *prefix,
    meta_list_fn fn, void *arg)
{
	struct etcd_list *list = mt_calloc(1, sizeof(*list) + strlen(prefix) + 1);
	int rc;

	CHECK_OBJ(client, ETCD_CLIENT_MAGIC);
	assert(meta_prefix_is_valid(prefix));
	assert(fn != NULL);
	if (list == NULL)
		return -ENOMEM;
	list->magic = LIST_MAGIC;
	sm_init(&list->sm, "etcd-list", list_table, LIST_PAGING, 0);
	list->client = client;
	list->deadline_ns = loop_now_ns(client->loop) + LIST_NS;
	list->fn = fn;
	list->arg = arg;
	list_init(&list->pages);
	memcpy(list->prefix, prefix, strlen(prefix) + 1);
	list_push_back(lists, &list->link);
	rc = list_ask(list);
	if (rc != 0)
		list_free(list);
	return rc;
}

void
etcd_list_cancel_all(struct loop_link *lists)
{
	struct loop_link *link;

	while ((link = list_first(lists)) != NULL)
		list_free(LIST_ENTRY(link, struct etcd_list, link));
}
