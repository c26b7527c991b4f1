/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_http.c -- libmicrohttpd in a daemon's loop
 *
 *	            GET /metrics            metrics_scrape_finish, _refuse
 *	(request) --------------> ASKED ----------------------------> ANSWERED ---> freed with its request
 *	                            |                                                  (http_on_completed)
 *	                            +-----> freed by metrics_http_stop
 *
 * While a scrape is ASKED its connection is suspended: the library does not look at it, so a client that goes
 * meanwhile is noticed when it is answered. The library's own epoll descriptor is watched; its time-outs are a timer.
 *
 * A connection more than METRICS_CONNECTIONS_MAX takes the place of the one that has been longest without a
 * request: a slow or silent client keeps nobody out. The library has room for one more, so that it goes on
 * to listen meanwhile.
 *
 * Over TLS the library makes the handshake, by a session that the guard has prepared (http_guard.c).
 */
#include "base/metrics_http.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/http_guard.h"
#include "base/http_host.h"
#include "base/http_listen.h"
#include "base/list.h"
#include "base/num.h"

#define METRICS_HTTP_MAGIC 0x5054544du   /* "MTTP" */
#define METRICS_SCRAPE_MAGIC 0x52435353u /* "SSCR" */
#define METRICS_MEMORY_BYTES 16384u      /* of a connection: its request's head */
#define HTTP_WHY_BYTES 512u              /* of a guard's refusal */
#define HTTP_PATHS_BYTES 256u /* of the text that lists all paths; what is longer is cut */
#define HTTP_MISDIRECTED 421u /* the library's name for it has come and gone */

struct metrics_http {
	uint32_t magic;
	struct loop *loop;
	struct metrics_http_options options;
	struct MHD_Daemon *daemon;
	struct loop_fd watcher;
	struct loop_timer timer;
	struct loop_link scrapes; /* ASKED */
	struct loop_link clients; /* connections: longest without a request first */
	uint32_t client_count;    /* of those, not cut */
	bool must_run;            /* something has changed that the library has not seen yet */
	struct http_listener at;
	bool is_tls;
};

/* A connection. */
struct http_client {
	struct loop_link link; /* http->clients */
	int fd;                /* the library's */
	bool is_asked;         /* somebody makes its answer: the library does not look at it */
	bool is_cut;           /* shut down; the library has not closed it yet */
	void *guest;           /* the guard's; NULL: there is none, or no memory */
};

struct metrics_scrape {
	uint32_t magic;
	struct metrics_http *http;
	const struct metrics_path *path;
	struct loop_link link; /* http->scrapes; ANSWERED: in no list */
	struct MHD_Connection *connection;
	struct http_client *client;
	FILE *out; /* into text; NULL: ANSWERED */
	char *text;
	size_t text_bytes;
	int rc;
	bool is_refused; /* the text says why */
};

/* The con_cls of a request whose head alone has come. */
static char request_is_new;

static void
http_pump(struct metrics_http *http)
{
	MHD_UNSIGNED_LONG_LONG left_ms;

	CHECK_OBJ(http, METRICS_HTTP_MAGIC);
	/* Once a turn: clients that never stop asking may not keep the loop from all else. */
	http->must_run = false;
	(void)MHD_run(http->daemon); /* fails only for other ways to run it */
	if (http->must_run)
		loop_timer_start(http->loop, &http->timer, 0); /* in the next turn */
	else if (MHD_get_timeout(http->daemon, &left_ms) == MHD_YES)
		loop_timer_start(http->loop, &http->timer, NUM_MS(left_ms));
	else
		loop_timer_stop(http->loop, &http->timer);
}

static void
http_on_event(struct loop_fd *watcher, unsigned events, void *arg)
{
	(void)watcher;
	(void)events;
	http_pump(arg);
}

static void
http_on_timer(struct loop_timer *timer, void *arg)
{
	(void)timer;
	http_pump(arg);
}

/* ---- connections ---- */

static struct http_client *
client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info != NULL ? info->socket_context : NULL;
}

/* There are too many: the library reads the end of the first one's requests, and closes it. */
static void
clients_cut_first(struct metrics_http *http)
{
	struct loop_link *link, *next;

	assert(http->client_count > METRICS_CONNECTIONS_MAX);
	LIST_FOREACH_SAFE(&http->clients, link, next) {
		struct http_client *client = LIST_ENTRY(link, struct http_client, link);

		if (client->is_cut || client->is_asked)
			continue;
		client->is_cut = true;
		http->client_count--;
		(void)shutdown(client->fd, SHUT_RDWR); /* fails where its peer has gone: as good */
		http->must_run = true;
		return;
	}
}

static void
client_open(struct metrics_http *http, struct MHD_Connection *connection, void **ret_client)
{
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http_client *client = calloc(1, sizeof(*client));

	*ret_client = client;
	if (client == NULL || info == NULL)
		return; /* its first request will be refused */
	client->fd = info->connect_fd;
	if (http->is_tls)
		client->guest = http_guard_open(http->options.guard, http->options.guard_arg,
		    connection, client->fd);
	list_push_back(&http->clients, &client->link);
	http->client_count++;
	if (http->client_count > METRICS_CONNECTIONS_MAX)
		clients_cut_first(http);
}

static void
client_close(struct metrics_http *http, struct http_client *client)
{
	/*
	 * At its limit the library does not listen, and begins again when it runs next. It will not by itself
	 * where time-outs have closed all: nothing is left then for it to wait for.
	 */
	http->must_run = true;
	if (client == NULL)
		return;
	if (client->link.next != NULL) {
		list_remove(&client->link);
		assert(client->is_cut || http->client_count > 0);
		http->client_count -= client->is_cut ? 0 : 1;
	}
	if (client->guest != NULL)
		http->options.guard->close(client->guest);
	free(client);
}

static void
http_on_connection(void *arg, struct MHD_Connection *connection, void **client,
    enum MHD_ConnectionNotificationCode code)
{
	struct metrics_http *http = arg;

	CHECK_OBJ(http, METRICS_HTTP_MAGIC);
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		client_open(http, connection, client);
		return;
	}
	assert(code == MHD_CONNECTION_NOTIFY_CLOSED);
	client_close(http, *client);
	*client = NULL;
}

/* ---- scrapes ---- */

static struct metrics_scrape *
scrape_create(struct metrics_http *http, const struct metrics_path *path,
    struct MHD_Connection *connection)
{
	struct http_client *client = client_of(connection);
	struct metrics_scrape *scrape = client != NULL ? calloc(1, sizeof(*scrape)) : NULL;

	if (scrape == NULL)
		return NULL;
	scrape->out = open_memstream(&scrape->text, &scrape->text_bytes);
	if (scrape->out == NULL) {
		free(scrape);
		return NULL;
	}
	scrape->magic = METRICS_SCRAPE_MAGIC;
	scrape->http = http;
	scrape->path = path;
	scrape->connection = connection;
	scrape->client = client;
	assert(!client->is_asked); /* while it is the library does not look at it */
	client->is_asked = true;
	list_remove(&client->link);
	list_push_back(&http->clients, &client->link);
	list_push_back(&http->scrapes, &scrape->link);
	return scrape;
}

static void
scrape_free(struct metrics_scrape *scrape)
{
	CHECK_OBJ(scrape, METRICS_SCRAPE_MAGIC);
	if (scrape->out != NULL) {
		list_remove(&scrape->link);
		(void)fclose(scrape->out); /* into memory that is thrown away */
	}
	free(scrape->text);
	scrape->magic = 0;
	free(scrape);
}

FILE *
metrics_scrape_out(struct metrics_scrape *scrape)
{
	CHECK_OBJ(scrape, METRICS_SCRAPE_MAGIC);
	return scrape->out;
}

void
metrics_scrape_finish(struct metrics_scrape *scrape, int rc)
{
	CHECK_OBJ(scrape, METRICS_SCRAPE_MAGIC);
	assert(scrape->out != NULL);
	assert(rc <= 0);
	list_remove(&scrape->link);
	scrape->rc = fclose(scrape->out) == 0 ? rc : -ENOMEM;
	scrape->out = NULL;
	scrape->client->is_asked = false;
	MHD_resume_connection(scrape->connection);
	/* Not from here: whoever finishes may be called by the library. */
	scrape->http->must_run = true;
	loop_timer_start(scrape->http->loop, &scrape->http->timer, 0);
}

void
metrics_scrape_refuse(struct metrics_scrape *scrape)
{
	CHECK_OBJ(scrape, METRICS_SCRAPE_MAGIC);
	scrape->is_refused = true;
	metrics_scrape_finish(scrape, 0);
}

/* ---- requests ---- */

struct http_answer {
	unsigned status;
	const char *type, *policy, *text;
	size_t bytes;
};

static enum MHD_Result
answer_add_headers(const struct http_answer *answer, struct MHD_Response *response)
{
	const char *const headers[][2] = {
		{ MHD_HTTP_HEADER_CONTENT_TYPE, answer->type },
		{ MHD_HTTP_HEADER_CACHE_CONTROL, "no-store" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Content-Security-Policy", answer->policy },
		{ "Referrer-Policy", answer->policy != NULL ? "no-referrer" : NULL },
		{ MHD_HTTP_HEADER_ALLOW,
		    answer->status == MHD_HTTP_METHOD_NOT_ALLOWED ? "GET, HEAD" : NULL },
	};

	assert(answer->type != NULL);
	for (size_t i = 0; i < NUM_COUNT(headers); i++) {
		if (headers[i][1] != NULL &&
		    MHD_add_response_header(response, headers[i][0], headers[i][1]) != MHD_YES)
			return MHD_NO;
	}
	return MHD_YES;
}

static enum MHD_Result
request_answer(struct MHD_Connection *connection, const struct http_answer *answer)
{
	union {
		const char *from;
		void *to;
	} unconst = { .from = answer->text }; /* it is copied */
	struct MHD_Response *response =
	    MHD_create_response_from_buffer(answer->bytes, unconst.to, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	assert(answer->text != NULL);
	if (response == NULL)
		return MHD_NO;
	result = answer_add_headers(answer, response);
	if (result == MHD_YES)
		result = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result
request_refuse(struct MHD_Connection *connection, unsigned status, const char *text)
{
	const struct http_answer answer = { status, METRICS_TYPE_TEXT, NULL, text, strlen(text) };

	assert(status != MHD_HTTP_OK);
	return request_answer(connection, &answer);
}

/* 0; or the status of a refusal, and why. */
static unsigned
request_judge(const struct metrics_http *http, struct MHD_Connection *connection,
    char ret_why[HTTP_WHY_BYTES])
{
	const struct http_client *client = client_of(connection);

	if (!http->is_tls)
		return 0;
	if (client != NULL && client->guest != NULL)
		return http->options.guard->judge(client->guest, ret_why, HTTP_WHY_BYTES);
	(void)snprintf(ret_why, HTTP_WHY_BYTES, "out of memory\n");
	return MHD_HTTP_SERVICE_UNAVAILABLE;
}

static enum MHD_Result
scrape_answer(struct metrics_scrape *scrape)
{
	const struct http_answer answer = { scrape->is_refused ? MHD_HTTP_SERVICE_UNAVAILABLE
							       : MHD_HTTP_OK,
		scrape->path->type, scrape->path->policy, scrape->text, scrape->text_bytes };

	CHECK_OBJ(scrape, METRICS_SCRAPE_MAGIC);
	assert(scrape->out == NULL); /* while it is ASKED its connection is suspended */
	if (scrape->rc != 0)
		return request_refuse(scrape->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
		    "it is starting, stopping, or out of memory\n");
	return request_answer(scrape->connection, &answer);
}

static const struct metrics_path *
path_of(const struct metrics_http *http, const char *url)
{
	for (uint32_t i = 0; i < http->options.path_count; i++) {
		if (strcmp(http->options.paths[i].path, url) == 0)
			return &http->options.paths[i];
	}
	return NULL;
}

/* Names the paths that there are. */
static enum MHD_Result
request_refuse_path(const struct metrics_http *http, struct MHD_Connection *connection)
{
	char text[HTTP_PATHS_BYTES] = "there is", *end = text + strlen(text);

	assert(http->options.path_count > 0);
	for (uint32_t i = 0; i < http->options.path_count; i++)
		end += num_min((uint64_t)snprintf(end, (size_t)(text + sizeof(text) - end), " %s",
				   http->options.paths[i].path),
		    (uint64_t)(text + sizeof(text) - 1 - end));
	(void)snprintf(end, (size_t)(text + sizeof(text) - end), " alone\n");
	return request_refuse(connection, MHD_HTTP_NOT_FOUND, text);
}

/* A request without a Host is no browser's. */
static bool
is_asked_by_others_name(const struct metrics_http *http, struct MHD_Connection *connection)
{
	const char *host =
	    MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

	return host != NULL && !http_host_is_ours(host, http->at.name);
}

/* Once for a request's head, once for its end, and once more when its scrape is ANSWERED. MHD_NO closes. */
static enum MHD_Result
http_on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
    const char *version, const char *upload_data, size_t *upload_bytes, void **request)
{
	struct metrics_http *http = arg;
	const struct metrics_path *path;
	struct metrics_scrape *scrape;
	char why[HTTP_WHY_BYTES];
	unsigned refusal;

	(void)version;
	(void)upload_data;
	CHECK_OBJ(http, METRICS_HTTP_MAGIC);
	if (*request == NULL) {
		*request = &request_is_new;
		return MHD_YES;
	}
	if (*upload_bytes > 0) { /* a body: nobody wants it */
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (*request != &request_is_new)
		return scrape_answer(*request);
	refusal = request_judge(http, connection, why);
	if (refusal != 0)
		return request_refuse(connection, refusal, why);
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return request_refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
		    "GET or HEAD is wanted\n");
	path = path_of(http, url);
	if (path == NULL)
		return request_refuse_path(http, connection);
	if (path->is_page && is_asked_by_others_name(http, connection))
		return request_refuse(connection, HTTP_MISDIRECTED,
		    "not by this name, so that no other site reads it: ask by an address, as localhost, by the "
		    "host's name, or by the name in --metrics\n");
	scrape = scrape_create(http, path, connection);
	if (scrape == NULL)
		return MHD_NO;
	*request = scrape;
	MHD_suspend_connection(connection);
	path->fn(scrape, http->options.arg);
	return MHD_YES;
}

static void
http_on_completed(void *arg, struct MHD_Connection *connection, void **request,
    enum MHD_RequestTerminationCode code)
{
	(void)arg;
	(void)connection;
	(void)code;
	if (*request != NULL && *request != &request_is_new)
		scrape_free(*request);
	*request = NULL;
}

/* ---- life ---- */

static struct MHD_Daemon *
http_start_daemon(struct metrics_http *http)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;

	return MHD_start_daemon(flags | (http->is_tls ? MHD_USE_TLS : 0), 0, NULL, NULL,
	    http_on_request, http, MHD_OPTION_LISTEN_SOCKET, http->at.fd,
	    MHD_OPTION_CONNECTION_LIMIT, METRICS_CONNECTIONS_MAX + 1, MHD_OPTION_CONNECTION_TIMEOUT,
	    METRICS_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)METRICS_MEMORY_BYTES,
	    MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, http, MHD_OPTION_NOTIFY_CONNECTION,
	    http_on_connection, http, MHD_OPTION_ARRAY, http_guard_options(http->is_tls),
	    MHD_OPTION_END);
}

static int
http_watch(struct metrics_http *http)
{
	const union MHD_DaemonInfo *info =
	    MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	if (info == NULL)
		return -ENOTSUP;
	loop_timer_init(&http->timer, http_on_timer, http);
	loop_fd_init(&http->watcher, info->epoll_fd, http_on_event, http);
	return loop_fd_start(http->loop, &http->watcher, LOOP_READABLE);
}

struct metrics_http *
metrics_http_start(struct loop *loop, const struct metrics_http_options *options, char *ret_error,
    size_t error_bytes)
{
	struct metrics_http *http = calloc(1, sizeof(*http));

	assert(loop != NULL);
	assert(options->paths != NULL && options->path_count > 0);
	assert(options->address != NULL && error_bytes > 0);
	(void)snprintf(ret_error, error_bytes,
	    "cannot serve metrics at %s: there is no memory or no descriptor left",
	    options->address);
	if (http == NULL)
		return NULL;
	*http =
	    (struct metrics_http){ .magic = METRICS_HTTP_MAGIC, .loop = loop, .options = *options };
	list_init(&http->scrapes);
	list_init(&http->clients);
	if (http_listen(options->address, options->is_open || options->guard != NULL, &http->at,
		ret_error, error_bytes) != 0)
		goto err_free;
	http->is_tls = options->guard != NULL &&
	    (options->wants_tls || (http->at.is_reached && !options->is_open));
	http->daemon = http_start_daemon(http);
	if (http->daemon == NULL) {
		(void)close(http->at.fd);
		goto err_free;
	}
	if (http_watch(http) != 0)
		goto err_stop;
	return http;

err_stop:
	MHD_stop_daemon(http->daemon); /* closes the descriptor */
err_free:
	free(http);
	return NULL;
}

void
metrics_http_stop(struct metrics_http *http)
{
	struct loop_link *link;

	if (http == NULL)
		return;
	CHECK_OBJ(http, METRICS_HTTP_MAGIC);
	/* The library wants nobody to be suspended when it stops; http_on_completed frees them. */
	while ((link = list_first(&http->scrapes)) != NULL)
		metrics_scrape_finish(LIST_ENTRY(link, struct metrics_scrape, link), -ESHUTDOWN);
	loop_timer_stop(http->loop, &http->timer);
	loop_fd_stop(http->loop, &http->watcher);
	MHD_stop_daemon(http->daemon);
	http->magic = 0;
	free(http);
}

bool
metrics_http_is_tls(const struct metrics_http *http)
{
	CHECK_OBJ(http, METRICS_HTTP_MAGIC);
	return http->is_tls;
}

const char *
metrics_http_address(const struct metrics_http *http)
{
	CHECK_OBJ(http, METRICS_HTTP_MAGIC);
	return http->at.address;
}
