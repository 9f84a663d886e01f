/* SPDX-License-Identifier: MIT */
#ifndef TEST_SANITIZED_H
#define TEST_SANITIZED_H

/* Defined where a sanitizer has replaced the allocator. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#endif
