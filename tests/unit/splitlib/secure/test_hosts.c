/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that a certificate names: what is one, and what is read of a certificate is what was put into it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "splitlib/secure/hosts.h"

#define LABEL63 "a23456789012345678901234567890123456789012345678901234567890123"

Test(hosts, a_name_or_an_address_and_nothing_else)
{
	static const char *const right[] = { "gw1", "gw1.example", "GW-1.Example", "a",
		"3com.example", "my_host", "xn--bcher-kva.example", "10.0.0.1", "fd00::1", "::1",
		LABEL63,
		LABEL63 "." LABEL63 "." LABEL63
			".b234567890123456789012345678901234567890123456789012345678901" };
	static const char *const wrong[] = { "", ".", "gw1.", ".gw1", "gw1..example", "-gw1",
		"gw1-", "gw1-.example", "*.example", "gw1:9710", "https://gw1", "gw 1", "gw1/x",
		"10.0.0.300", "10.0.0", "1", "[fd00::1]", "fd00::1%eth0",
		"b\xc3\xbc"
		"cher",
		LABEL63 "4",
		LABEL63 "." LABEL63 "." LABEL63
			".b2345678901234567890123456789012345678901234567890123456789012" };
	struct hosts hosts = { .count = 0 };

	for (size_t i = 0; i < NUM_COUNT(right); i++)
		cr_assert_eq(hosts_add(&hosts, right[i]), 0, "%s", right[i]);
	cr_assert_eq(hosts.count, NUM_COUNT(right));
	for (size_t i = 0; i < NUM_COUNT(wrong); i++)
		cr_assert_eq(hosts_add(&hosts, wrong[i]), -EINVAL, "'%s'", wrong[i]);
	cr_assert_eq(hosts_add(&hosts, "gw1"), 0, "once more");
	cr_assert_eq(hosts.count, NUM_COUNT(right));
}

Test(hosts, are_bounded)
{
	struct hosts hosts = { .count = 0 };
	char name[16];

	for (unsigned i = 0; i < HOSTS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "gw%u", i);
		cr_assert_eq(hosts_add(&hosts, name), 0);
	}
	cr_assert_eq(hosts_add(&hosts, "one-more"), -ENOSPC);
	cr_assert_eq(hosts_add(&hosts, "gw0"), 0);
}

/* GnuTLS reads names when it reads a certificate: one that is made is signed, written, and read again. */
static gnutls_x509_crt_t
read_again(gnutls_x509_crt_t made)
{
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t read;
	gnutls_datum_t der;
	char *at;

	cr_assert_geq(gnutls_x509_privkey_init(&key), 0);
	cr_assert_geq(gnutls_x509_privkey_generate(key, GNUTLS_PK_EDDSA_ED25519, 256, 0), 0);
	cr_assert_geq(gnutls_x509_crt_set_version(made, 3), 0);
	cr_assert_geq(gnutls_x509_crt_set_serial(made, "\1", 1), 0);
	cr_assert_geq(gnutls_x509_crt_set_activation_time(made, 1000), 0);
	cr_assert_geq(gnutls_x509_crt_set_expiration_time(made, 2000), 0);
	cr_assert_geq(gnutls_x509_crt_set_key(made, key), 0);
	cr_assert_geq(gnutls_x509_crt_sign2(made, made, key, GNUTLS_DIG_UNKNOWN, 0), 0);
	cr_assert_geq(gnutls_x509_crt_export2(made, GNUTLS_X509_FMT_DER, &der), 0);
	/* GnuTLS writes no zero into a name; its signature is none any more, and nobody looks. */
	at = memmem(der.data, der.size, "gw1#.evil", 9);
	if (at != NULL)
		at[3] = '\0';
	cr_assert_geq(gnutls_x509_crt_init(&read), 0);
	cr_assert_geq(gnutls_x509_crt_import(read, &der, GNUTLS_X509_FMT_DER), 0);
	gnutls_free(der.data);
	gnutls_x509_privkey_deinit(key);
	gnutls_x509_crt_deinit(made);
	return read;
}

static void
put(gnutls_x509_crt_t certificate, gnutls_x509_subject_alt_name_t kind, const void *name,
    unsigned bytes)
{
	cr_assert_geq(gnutls_x509_crt_set_subject_alt_name(certificate, kind, name, bytes,
			  GNUTLS_FSAN_APPEND),
	    0);
}

Test(hosts, what_is_put_into_a_certificate_is_read_and_what_is_no_host_is_not)
{
	static const char *const names[] = { "gw1.example", "10.0.0.1", "fd00::1", LABEL63 };
	static const char uri[] = "cleave://00c0ffee00c0ffee/gateway/1";
	struct hosts hosts = { .count = 0 }, found;
	gnutls_x509_crt_t certificate;

	cr_assert_geq(gnutls_x509_crt_init(&certificate), 0);
	put(certificate, GNUTLS_SAN_URI, uri, sizeof(uri) - 1);
	for (size_t i = 0; i < NUM_COUNT(names); i++)
		cr_assert_eq(hosts_add(&hosts, names[i]), 0);
	cr_assert_eq(hosts_put(&hosts, certificate), 0);
	/* Names of others' making. */
	put(certificate, GNUTLS_SAN_DNSNAME, "*.example", 9);
	put(certificate, GNUTLS_SAN_DNSNAME, "gw1#.evil", 9);
	put(certificate, GNUTLS_SAN_IPADDRESS, "abc", 3);
	put(certificate, GNUTLS_SAN_RFC822NAME, "gw2.example", 11);
	put(certificate, GNUTLS_SAN_DNSNAME, LABEL63 "." LABEL63 "." LABEL63 "." LABEL63, 255);
	certificate = read_again(certificate);
	hosts_of(certificate, &found);
	for (size_t i = 0; i < NUM_COUNT(names); i++)
		cr_assert_str_eq(found.names[i], names[i]);
	cr_assert_eq(found.count, NUM_COUNT(names), "%u, %s", found.count, found.names[4]);
	gnutls_x509_crt_deinit(certificate);
}

Test(hosts, of_a_certificate_that_names_none_are_none)
{
	gnutls_x509_crt_t certificate;
	struct hosts found;

	cr_assert_geq(gnutls_x509_crt_init(&certificate), 0);
	certificate = read_again(certificate);
	hosts_of(certificate, &found);
	cr_assert_eq(found.count, 0u);
	gnutls_x509_crt_deinit(certificate);
}
