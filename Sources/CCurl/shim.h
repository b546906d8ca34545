#pragma once

#include <curl/curl.h>

// Swift cannot call variadic functions; each of libcurl's three gets one plain wrapper for each argument type in use.

/// curl_easy_setopt for options that take a long.
static inline CURLcode curl_shim_set_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}

/// curl_easy_setopt for options that take a curl_off_t.
static inline CURLcode curl_shim_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}

/// curl_easy_setopt for options that take a string, which libcurl copies; NULL resets the option.
static inline CURLcode curl_shim_set_text(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}

/// curl_easy_setopt for options that take a pointer, which libcurl keeps.
static inline CURLcode curl_shim_set_pointer(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}

/// The common form of CURLOPT_WRITEFUNCTION, CURLOPT_HEADERFUNCTION and CURLOPT_READFUNCTION.
typedef size_t (*curl_shim_transfer_callback)(char *buffer, size_t size, size_t count, void *context);

/// curl_easy_setopt for the three callbacks that move bytes.
static inline CURLcode curl_shim_set_transfer_callback(
    CURL *easy, CURLoption option, curl_shim_transfer_callback callback
) {
    return curl_easy_setopt(easy, option, callback);
}

/// curl_easy_setopt of CURLOPT_SEEKFUNCTION.
static inline CURLcode curl_shim_set_seek_callback(CURL *easy, curl_seek_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, callback);
}

/// curl_easy_setopt of CURLOPT_PREREQFUNCTION.
static inline CURLcode curl_shim_set_begin_callback(CURL *easy, curl_prereq_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, callback);
}

/// curl_easy_setopt of CURLOPT_SOCKOPTFUNCTION.
static inline CURLcode curl_shim_set_socket_callback(CURL *easy, curl_sockopt_callback callback) {
    return curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, callback);
}

/// curl_easy_getinfo for values of type long; 0 when libcurl does not know.
static inline long curl_shim_info_long(CURL *easy, CURLINFO info) {
    long value = 0;
    return curl_easy_getinfo(easy, info, &value) == CURLE_OK ? value : 0;
}

/// curl_easy_getinfo for values of type curl_off_t; 0 when libcurl does not know.
static inline curl_off_t curl_shim_info_offset(CURL *easy, CURLINFO info) {
    curl_off_t value = 0;
    return curl_easy_getinfo(easy, info, &value) == CURLE_OK ? value : 0;
}

/// curl_multi_setopt for options that take a long.
static inline CURLMcode curl_shim_multi_set_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
