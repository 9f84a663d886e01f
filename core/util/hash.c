/* SPDX-License-Identifier: MIT */
/*
 * SipHash-1-3, of 64 and of 128 bits, under a random key. Knows nothing of what is hashed.
 */
#include "util/hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static uint64_t key[2];
static pthread_once_t keyed = PTHREAD_ONCE_INIT;

static void make_key(void)
{
	struct timespec now;

	if (getrandom(key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key)
		return;
	/* getrandom() is not ready, early at boot: a weak key beats a constant one. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	key[0] = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)getpid();
	key[1] = (uint64_t)(uintptr_t)&now;
}

void tdl__hash_rekey(void)
{
	pthread_once(&keyed, make_key);
	key[0] = ~key[0];
}

struct state {
	uint64_t a, b, c, d;
};

static uint64_t turn(uint64_t word, unsigned bits)
{
	return word << bits | word >> (64 - bits);
}

static void mix(struct state *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = turn(s->b, 13) ^ s->a;
	s->d = turn(s->d, 16) ^ s->c;
	s->a = turn(s->a, 32) + s->d;
	s->c += s->b;
	s->d = turn(s->d, 21) ^ s->a;
	s->b = turn(s->b, 17) ^ s->c;
	s->c = turn(s->c, 32);
}

static void absorb_word(struct state *s, uint64_t word)
{
	s->d ^= word;
	mix(s);
	s->a ^= word;
}

static struct state begin(void)
{
	pthread_once(&keyed, make_key);
	return (struct state){
		key[0] ^ UINT64_C(0x736f6d6570736575),
		key[1] ^ UINT64_C(0x646f72616e646f6d),
		key[0] ^ UINT64_C(0x6c7967656e657261),
		key[1] ^ UINT64_C(0x7465646279746573),
	};
}

static void take_all(struct state *s, const void *bytes, size_t n)
{
	const unsigned char *at = bytes;
	uint64_t word, last = (uint64_t)n << 56;

	for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
		memcpy(&word, at, sizeof word);
		absorb_word(s, word);
	}
	for (size_t i = 0; i < n; i++)
		last |= (uint64_t)at[i] << 8 * i;
	absorb_word(s, last);
}

static uint64_t finish(struct state *s)
{
	for (int i = 0; i < 3; i++)
		mix(s);
	return s->a ^ s->b ^ s->c ^ s->d;
}

uint64_t tdl__hash(const void *bytes, size_t n)
{
	struct state s = begin();

	take_all(&s, bytes, n);
	s.c ^= 0xff;
	return finish(&s);
}

void tdl__hash128(uint64_t hash[2], const void *bytes, size_t n)
{
	struct state s = begin();

	s.b ^= 0xee;
	take_all(&s, bytes, n);
	s.c ^= 0xee;
	hash[0] = finish(&s);
	s.b ^= 0xdd;
	hash[1] = finish(&s);
}
