/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_curl.c -- the way to the members of an etcd over HTTP/1.1; see etcd_curl.h
 *
 *	post, stream --> [libcurl: a "multi" a line, driven by sockets and a timer] --> ready --> task --> handler
 *
 * Inside of libcurl's own callbacks nothing may be called back: what they bring lies in the call, which is put
 * on the list `ready`, and a task of the same turn hands it over. One at a time: a handler may cancel any other,
 * or close it all.
 *
 * Each line has a "multi" of its own, so connections of its own: behind a list of megabytes no renewal waits.
 */
#include "meta/etcd_curl.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "common/alloc.h"
#include "meta/etcd_json.h"

#define CURL_WAY_MAGIC 0x4c525543u /* "CURL" */
#define CURL_URL_BYTES 256u
#define CURL_HEADER_BYTES 512u
#define CURL_CONNECTIONS_MAX 4L /* to a member, of one line */
#define CURL_CONNECT_NS NUM_S(1)
#define CURL_HINT_BYTES 80u

struct curl_way;

struct curl_line {
	struct curl_way *way;
	CURLM *multi;
	struct loop_timer timer;
};

struct curl_way {
	struct etcd_http base;
	uint32_t magic; /* CURL_WAY_MAGIC */
	struct loop *loop;
	struct curl_line lines[ETCD_LINE_NR];
	char urls[ETCD_ENDPOINTS_MAX][CURL_URL_BYTES];
	uint32_t url_count;
	char *ca, *cert, *key;
	struct loop_link sockets, calls, ready;
	struct loop_task task;
};

struct curl_socket {
	struct loop_link link; /* way->sockets */
	struct curl_line *line;
	struct loop_fd watcher;
};

struct etcd_http_call {
	struct loop_link link;       /* way->calls */
	struct loop_link ready_link; /* way->ready: something is to be handed over */
	struct curl_line *line;
	const char *url; /* of the member */
	CURL *easy;
	struct curl_slist *headers;
	char *body;
	size_t body_bytes, sent_bytes;
	struct etcd_text answer; /* of a stream: what was not handed over yet */
	bool has_ended;
	CURLcode code;
	char error[CURL_ERROR_SIZE];
	etcd_http_bytes_fn bytes_fn; /* NULL: no stream */
	etcd_http_fn fn;
	void *arg;
};

static struct curl_way *
way_of(struct etcd_http *http)
{
	struct curl_way *way = NUM_CONTAINER_OF(http, struct curl_way, base);

	CHECK_OBJ(way, CURL_WAY_MAGIC);
	return way;
}

static void
call_free(struct etcd_http_call *call)
{
	assert(list_contains(&call->link));
	list_remove(&call->link);
	list_remove(&call->ready_link);
	if (call->easy != NULL) {
		/* Not in it, if that was refused: then this does nothing. */
		(void)curl_multi_remove_handle(call->line->multi, call->easy);
		curl_easy_cleanup(call->easy);
	}
	curl_slist_free_all(call->headers);
	etcd_text_fini(&call->answer);
	mt_free(call->body);
	mt_free(call);
}

static void
call_set_ready(struct etcd_http_call *call)
{
	struct curl_way *way = call->line->way;

	assert(list_contains(&call->link));
	if (!list_contains(&call->ready_link))
		list_push_back(&way->ready, &call->ready_link);
	loop_defer(way->loop, &way->task);
}

/* ---- handing over ---- */

/* With TLS 1.3 a member says behind the handshake that it wants another certificate, or any. */
static bool
call_is_alerted(const struct etcd_http_call *call)
{
	return strstr(call->error, "TLS fatal alert") != NULL;
}

/* A hint at what people may have overlooked. */
static const char *
call_hint(const struct etcd_http_call *call)
{
	if (call_is_alerted(call))
		return ": does it want a certificate, or another one? See --meta-cert";
	if (call->code == CURLE_GOT_NOTHING && strncmp(call->url, "http://", 7) == 0)
		return ": does it want TLS, which is etcds://?";
	return "";
}

static int
call_rc(const struct etcd_http_call *call)
{
	assert(call->has_ended);
	switch (call->code) {
	case CURLE_OK:
		return 0;
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		return -ECONNREFUSED;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_GOT_NOTHING:
		return -ENODATA;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
		return -EKEYREJECTED;
	default:
		return call_is_alerted(call) ? -EKEYREJECTED : -EIO;
	}
}

static void
call_end(struct etcd_http_call *call)
{
	struct etcd_http_answer answer = { .rc = call_rc(call),
		.was_sent = call->sent_bytes > 0,
		.body = call->answer.bytes,
		.body_bytes = call->answer.count };
	long status = 0;
	etcd_http_fn fn = call->fn;
	void *arg = call->arg;
	struct etcd_text text = call->answer;
	char error[CURL_ERROR_SIZE + CURL_HINT_BYTES];

	assert(call->has_ended);
	(void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	answer.status = (uint32_t)status;
	(void)snprintf(error, sizeof(error), "%s%s",
	    call->error[0] != '\0' ? call->error : curl_easy_strerror(call->code), call_hint(call));
	answer.error = error;
	call->answer = (struct etcd_text){ 0 };
	call_free(call);
	fn(&answer, arg);
	etcd_text_fini(&text);
}

static void
way_on_task(struct loop_task *task, void *arg)
{
	struct curl_way *way = arg;
	struct loop_link *link = list_pop_front(&way->ready);
	struct etcd_http_call *call;
	struct etcd_text bytes;

	CHECK_OBJ(way, CURL_WAY_MAGIC);
	if (link == NULL)
		return;
	call = LIST_ENTRY(link, struct etcd_http_call, ready_link);
	if (!list_is_empty(&way->ready))
		loop_defer(way->loop, task);
	if (call->bytes_fn == NULL || call->answer.count == 0) {
		if (call->has_ended)
			call_end(call);
		return;
	}
	/* The end of a stream comes after what it has brought, in a call of its own. */
	if (call->has_ended)
		call_set_ready(call);
	bytes = call->answer;
	call->answer = (struct etcd_text){ 0 };
	call->bytes_fn(bytes.bytes, bytes.count, call->arg);
	etcd_text_fini(&bytes);
}

/* ---- libcurl's callbacks ---- */

static size_t
curl_on_read(char *out, size_t size, size_t count, void *arg)
{
	struct etcd_http_call *call = arg;
	size_t bytes = num_min(size * count, call->body_bytes - call->sent_bytes);

	assert(call->sent_bytes <= call->body_bytes);
	memcpy(out, call->body + call->sent_bytes, bytes);
	call->sent_bytes += bytes;
	return bytes;
}

static size_t
curl_on_write(char *bytes, size_t size, size_t count, void *arg)
{
	struct etcd_http_call *call = arg;
	size_t more = size * count;

	assert(!call->has_ended);
	if (call->answer.count + more > ETCD_BODY_BYTES_MAX ||
	    !etcd_text_append(&call->answer, bytes, more))
		return CURL_WRITEFUNC_ERROR;
	if (call->bytes_fn != NULL)
		call_set_ready(call);
	return more;
}

static void
line_reap(struct curl_line *line)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(line->multi, &left)) != NULL) {
		struct etcd_http_call *call = NULL;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
		assert(call != NULL);
		call->code = message->data.result;
		call->has_ended = true;
		call_set_ready(call);
	}
}

static void
line_act(struct curl_line *line, curl_socket_t fd, int events)
{
	int running;

	assert(line->multi != NULL);
	(void)curl_multi_socket_action(line->multi, fd, events, &running);
	line_reap(line);
}

static void
curl_on_events(struct loop_fd *watcher, unsigned events, void *arg)
{
	struct curl_socket *socket = arg;
	int mask = ((events & LOOP_READABLE) != 0 ? CURL_CSELECT_IN : 0) |
	    ((events & LOOP_WRITABLE) != 0 ? CURL_CSELECT_OUT : 0);

	assert(list_contains(&socket->link));
	/* May free the socket. */
	line_act(socket->line, watcher->fd, mask);
}

static void
curl_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	line_act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static void
socket_free(struct curl_socket *socket)
{
	assert(list_contains(&socket->link));
	loop_fd_stop(socket->line->way->loop, &socket->watcher);
	list_remove(&socket->link);
	mt_free(socket);
}

static struct curl_socket *
socket_create(struct curl_line *line, curl_socket_t fd, unsigned events)
{
	struct curl_socket *socket = mt_calloc(1, sizeof(*socket));

	assert(fd >= 0);
	if (socket == NULL)
		return NULL;
	socket->line = line;
	loop_fd_init(&socket->watcher, fd, curl_on_events, socket);
	if (loop_fd_start(line->way->loop, &socket->watcher, events) != 0) {
		mt_free(socket);
		return NULL;
	}
	list_push_back(&line->way->sockets, &socket->link);
	(void)curl_multi_assign(line->multi, fd, socket);
	return socket;
}

static int
curl_on_socket(CURL *easy, curl_socket_t fd, int what, void *line_arg, void *socket_arg)
{
	struct curl_line *line = line_arg;
	struct curl_socket *socket = socket_arg;
	unsigned events = ((what & CURL_POLL_IN) != 0 ? LOOP_READABLE : 0u) |
	    ((what & CURL_POLL_OUT) != 0 ? LOOP_WRITABLE : 0u);

	assert(socket == NULL || socket->line == line);
	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (socket != NULL)
			socket_free(socket);
		return 0;
	}
	if (socket != NULL)
		loop_fd_modify(line->way->loop, &socket->watcher, events);
	else /* not watched, for lack of memory: the call's time-out ends it */
		(void)socket_create(line, fd, events);
	return 0;
}

static int
curl_on_timeout(CURLM *multi, long timeout_ms, void *arg)
{
	struct curl_line *line = arg;

	(void)multi;
	if (timeout_ms < 0)
		loop_timer_stop(line->way->loop, &line->timer);
	else
		loop_timer_start(line->way->loop, &line->timer, NUM_MS(timeout_ms));
	return 0;
}

/* ---- calls ---- */

static bool
call_add_header(struct etcd_http_call *call, const char *header)
{
	struct curl_slist *headers = curl_slist_append(call->headers, header);

	if (headers == NULL)
		return false;
	call->headers = headers;
	return true;
}

static bool
call_add_headers(struct etcd_http_call *call, const struct etcd_http_request *request)
{
	char token[CURL_HEADER_BYTES];

	assert(call->headers == NULL);
	/* A large body goes at once: no question whether it may. */
	if (!call_add_header(call, "Content-Type: application/json") ||
	    !call_add_header(call, "Expect:"))
		return false;
	/* A member that has lost its leader ends the stream, instead of keeping silent. */
	if (call->bytes_fn != NULL && !call_add_header(call, "Grpc-Metadata-hasleader: true"))
		return false;
	if (request->token == NULL)
		return true;
	if (snprintf(token, sizeof(token), "Authorization: %s", request->token) >=
	    (int)sizeof(token))
		return false;
	return call_add_header(call, token);
}

static long
timeout_ms(uint64_t ns)
{
	assert(ns > 0);
	return (long)num_min(num_max(ns / NUM_MS(1), 1), INT32_MAX);
}

/* Options of libcurl that fail do so for lack of memory: seen when a file or a URL could not be copied. */
static bool
call_set_options(struct etcd_http_call *call, const struct etcd_http_request *request)
{
	const struct curl_way *way = call->line->way;
	CURL *easy = call->easy;
	char url[CURL_URL_BYTES + 64];
	bool is_good;

	assert(request->endpoint < way->url_count);
	assert(request->path[0] == '/');
	assert(call->headers != NULL);
	(void)snprintf(url, sizeof(url), "%s%s", way->urls[request->endpoint], request->path);
	is_good = curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
	    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK &&
	    curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
	    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
	if (way->ca != NULL)
		is_good &= curl_easy_setopt(easy, CURLOPT_CAINFO, way->ca) == CURLE_OK;
	if (way->cert != NULL)
		is_good &= curl_easy_setopt(easy, CURLOPT_SSLCERT, way->cert) == CURLE_OK;
	if (way->key != NULL)
		is_good &= curl_easy_setopt(easy, CURLOPT_SSLKEY, way->key) == CURLE_OK;
	(void)curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	(void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
	(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	(void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_bytes);
	/* Read by a function without a way back: so libcurl cannot send it a second time. */
	(void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, curl_on_read);
	(void)curl_easy_setopt(easy, CURLOPT_READDATA, call);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, curl_on_write);
	(void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	(void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 10L);
	(void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
	(void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
	    timeout_ms(num_min(request->timeout_ns, CURL_CONNECT_NS)));
	if (call->bytes_fn == NULL)
		(void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms(request->timeout_ns));
	return is_good;
}

static struct etcd_http_call *
way_call(struct etcd_http *http, const struct etcd_http_request *request,
    etcd_http_bytes_fn bytes_fn, etcd_http_fn fn, void *arg)
{
	struct curl_way *way = way_of(http);
	struct etcd_http_call *call = mt_calloc(1, sizeof(*call));

	assert(request->endpoint < way->url_count);
	assert(request->line < ETCD_LINE_NR);
	assert(request->body_bytes > 0);
	assert(fn != NULL);
	if (call == NULL)
		return NULL;
	call->line = &way->lines[request->line];
	call->url = way->urls[request->endpoint];
	call->bytes_fn = bytes_fn;
	call->fn = fn;
	call->arg = arg;
	list_push_back(&way->calls, &call->link);
	call->body_bytes = request->body_bytes;
	call->body = mt_calloc(1, request->body_bytes);
	call->easy = curl_easy_init();
	if (call->body == NULL || call->easy == NULL || !call_add_headers(call, request) ||
	    !call_set_options(call, request))
		goto err_call;
	memcpy(call->body, request->body, request->body_bytes);
	if (curl_multi_add_handle(call->line->multi, call->easy) != CURLM_OK)
		goto err_call;
	return call;

err_call:
	call_free(call);
	return NULL;
}

static struct etcd_http_call *
way_post(struct etcd_http *http, const struct etcd_http_request *request, etcd_http_fn fn,
    void *arg)
{
	return way_call(http, request, NULL, fn, arg);
}

static void
way_cancel(struct etcd_http *http, struct etcd_http_call *call)
{
	assert(call->line->way == way_of(http));
	call_free(call);
}

/* ---- opening and closing ---- */

static void
way_close(struct etcd_http *http)
{
	struct curl_way *way = way_of(http);
	struct loop_link *link;

	while ((link = list_first(&way->calls)) != NULL)
		call_free(LIST_ENTRY(link, struct etcd_http_call, link));
	assert(list_is_empty(&way->ready));
	loop_task_cancel(way->loop, &way->task);
	for (uint32_t i = 0; i < ETCD_LINE_NR; i++) {
		if (way->lines[i].multi != NULL)
			(void)curl_multi_cleanup(way->lines[i].multi);
		loop_timer_stop(way->loop, &way->lines[i].timer);
	}
	while ((link = list_first(&way->sockets)) != NULL)
		socket_free(LIST_ENTRY(link, struct curl_socket, link));
	mt_free(way->ca);
	mt_free(way->cert);
	mt_free(way->key);
	way->magic = 0;
	mt_free(way);
}

static const struct etcd_http_ops way_ops = {
	.name = "curl",
	.post = way_post,
	.stream = way_call,
	.cancel = way_cancel,
	.close = way_close,
};

static bool
line_open(struct curl_line *line, struct curl_way *way)
{
	assert(line->multi == NULL);
	line->way = way;
	loop_timer_init(&line->timer, curl_on_timer, line);
	line->multi = curl_multi_init();
	if (line->multi == NULL)
		return false;
	(void)curl_multi_setopt(line->multi, CURLMOPT_SOCKETFUNCTION, curl_on_socket);
	(void)curl_multi_setopt(line->multi, CURLMOPT_SOCKETDATA, line);
	(void)curl_multi_setopt(line->multi, CURLMOPT_TIMERFUNCTION, curl_on_timeout);
	(void)curl_multi_setopt(line->multi, CURLMOPT_TIMERDATA, line);
	(void)curl_multi_setopt(line->multi, CURLMOPT_MAX_HOST_CONNECTIONS, CURL_CONNECTIONS_MAX);
	return true;
}

/* NULL stays NULL. */
static bool
file_copy(char **ret_copy, const char *file)
{
	*ret_copy = file == NULL ? NULL : mt_strdup(file);
	return file == NULL || *ret_copy != NULL;
}

struct etcd_http *
etcd_curl_open(const struct etcd_curl_options *options)
{
	struct curl_way *way = mt_calloc(1, sizeof(*way));
	bool is_good;

	assert(options->url_count > 0);
	assert(options->url_count <= ETCD_ENDPOINTS_MAX);
	assert(options->loop != NULL);
	if (way == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		mt_free(way);
		return NULL;
	}
	way->base.ops = &way_ops;
	way->magic = CURL_WAY_MAGIC;
	way->loop = options->loop;
	way->url_count = options->url_count;
	list_init(&way->sockets);
	list_init(&way->calls);
	list_init(&way->ready);
	loop_task_init(&way->task, way_on_task, way);
	is_good = file_copy(&way->ca, options->ca) && file_copy(&way->cert, options->cert) &&
	    file_copy(&way->key, options->key);
	for (uint32_t i = 0; i < options->url_count; i++) {
		assert(strlen(options->urls[i]) < CURL_URL_BYTES);
		(void)snprintf(way->urls[i], CURL_URL_BYTES, "%s", options->urls[i]);
	}
	for (uint32_t i = 0; i < ETCD_LINE_NR; i++)
		is_good &= line_open(&way->lines[i], way);
	if (!is_good) {
		way_close(&way->base);
		return NULL;
	}
	return &way->base;
}
