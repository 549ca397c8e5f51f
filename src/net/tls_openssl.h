/* net/tls_openssl.h — what is called of OpenSSL, and how: through pointers that
 * are filled when TLS is first wanted (tls_load.c).
 *
 * Linked as usual, libssl and libcrypto would be loaded and relocated at the
 * start of each program that has libsnib, which costs more than the whole of
 * `snib version`; few of them use TLS. Included by tls_i.h, after OpenSSL's
 * headers; from there on their names mean the pointers. */
#ifndef SNIB__TLS_OPENSSL_H
#define SNIB__TLS_OPENSSL_H

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#define SNIB__OPENSSL(X)                                                       \
    X(ASN1_OCTET_STRING_free)                                                  \
    X(ASN1_STRING_get0_data)                                                   \
    X(ASN1_STRING_length)                                                      \
    X(BIO_clear_flags)                                                         \
    X(BIO_free)                                                                \
    X(BIO_get_data)                                                            \
    X(BIO_get_new_index)                                                       \
    X(BIO_meth_free)                                                           \
    X(BIO_meth_new)                                                            \
    X(BIO_meth_set_ctrl)                                                       \
    X(BIO_meth_set_read)                                                       \
    X(BIO_meth_set_write)                                                      \
    X(BIO_new)                                                                 \
    X(BIO_set_data)                                                            \
    X(BIO_set_flags)                                                           \
    X(BIO_set_init)                                                            \
    X(ERR_clear_error)                                                         \
    X(ERR_peek_error)                                                          \
    X(ERR_reason_error_string)                                                 \
    X(GENERAL_NAMES_free)                                                      \
    X(OPENSSL_init_ssl)                                                        \
    X(OPENSSL_sk_num)                                                          \
    X(OPENSSL_sk_value)                                                        \
    X(SSL_CTX_check_private_key)                                               \
    X(SSL_CTX_ctrl)                                                            \
    X(SSL_CTX_free)                                                            \
    X(SSL_CTX_load_verify_dir)                                                 \
    X(SSL_CTX_load_verify_file)                                                \
    X(SSL_CTX_new)                                                             \
    X(SSL_CTX_sess_set_new_cb)                                                 \
    X(SSL_CTX_set_alpn_protos)                                                 \
    X(SSL_CTX_set_default_passwd_cb)                                           \
    X(SSL_CTX_set_default_passwd_cb_userdata)                                  \
    X(SSL_CTX_set_default_verify_paths)                                        \
    X(SSL_CTX_set_options)                                                     \
    X(SSL_CTX_set_verify)                                                      \
    X(SSL_CTX_use_PrivateKey_file)                                             \
    X(SSL_CTX_use_certificate_chain_file)                                      \
    X(SSL_SESSION_free)                                                        \
    X(SSL_SESSION_is_resumable)                                                \
    X(SSL_ctrl)                                                                \
    X(SSL_do_handshake)                                                        \
    X(SSL_free)                                                                \
    X(SSL_get0_alpn_selected)                                                  \
    X(SSL_get0_param)                                                          \
    X(SSL_get0_verified_chain)                                                 \
    X(SSL_get_error)                                                           \
    X(SSL_get_ex_data)                                                         \
    X(SSL_get_verify_result)                                                   \
    X(SSL_new)                                                                 \
    X(SSL_read_ex)                                                             \
    X(SSL_session_reused)                                                      \
    X(SSL_set_bio)                                                             \
    X(SSL_set_connect_state)                                                   \
    X(SSL_set_ex_data)                                                         \
    X(SSL_set_session)                                                         \
    X(SSL_set_shutdown)                                                        \
    X(SSL_shutdown)                                                            \
    X(SSL_write_ex)                                                            \
    X(TLS_client_method)                                                       \
    X(X509_VERIFY_PARAM_set1_host)                                             \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                           \
    X(X509_VERIFY_PARAM_set_hostflags)                                         \
    X(X509_get_ext_d2i)                                                        \
    X(X509_verify_cert_error_string)                                           \
    X(a2i_IPADDRESS)

struct snib__openssl {
#define SNIB__OPENSSL_POINTER(f) __typeof__(f) *f##_;
    SNIB__OPENSSL(SNIB__OPENSSL_POINTER)
};
extern struct snib__openssl snib__openssl;

/* Fill them, once in a process. NULL: they are there; else what is missing. Any
 * thread. */
const char *snib__openssl_load(void);

#define ASN1_OCTET_STRING_free    snib__openssl.ASN1_OCTET_STRING_free_
#define ASN1_STRING_get0_data     snib__openssl.ASN1_STRING_get0_data_
#define ASN1_STRING_length        snib__openssl.ASN1_STRING_length_
#define BIO_clear_flags           snib__openssl.BIO_clear_flags_
#define BIO_free                  snib__openssl.BIO_free_
#define BIO_get_data              snib__openssl.BIO_get_data_
#define BIO_get_new_index         snib__openssl.BIO_get_new_index_
#define BIO_meth_free             snib__openssl.BIO_meth_free_
#define BIO_meth_new              snib__openssl.BIO_meth_new_
#define BIO_meth_set_ctrl         snib__openssl.BIO_meth_set_ctrl_
#define BIO_meth_set_read         snib__openssl.BIO_meth_set_read_
#define BIO_meth_set_write        snib__openssl.BIO_meth_set_write_
#define BIO_new                   snib__openssl.BIO_new_
#define BIO_set_data              snib__openssl.BIO_set_data_
#define BIO_set_flags             snib__openssl.BIO_set_flags_
#define BIO_set_init              snib__openssl.BIO_set_init_
#define ERR_clear_error           snib__openssl.ERR_clear_error_
#define ERR_peek_error            snib__openssl.ERR_peek_error_
#define ERR_reason_error_string   snib__openssl.ERR_reason_error_string_
#define GENERAL_NAMES_free        snib__openssl.GENERAL_NAMES_free_
#define OPENSSL_init_ssl          snib__openssl.OPENSSL_init_ssl_
#define OPENSSL_sk_num            snib__openssl.OPENSSL_sk_num_
#define OPENSSL_sk_value          snib__openssl.OPENSSL_sk_value_
#define SSL_CTX_check_private_key snib__openssl.SSL_CTX_check_private_key_
#define SSL_CTX_ctrl              snib__openssl.SSL_CTX_ctrl_
#define SSL_CTX_free              snib__openssl.SSL_CTX_free_
#define SSL_CTX_load_verify_dir   snib__openssl.SSL_CTX_load_verify_dir_
#define SSL_CTX_load_verify_file  snib__openssl.SSL_CTX_load_verify_file_
#define SSL_CTX_new               snib__openssl.SSL_CTX_new_
#define SSL_CTX_sess_set_new_cb   snib__openssl.SSL_CTX_sess_set_new_cb_
#define SSL_CTX_set_alpn_protos   snib__openssl.SSL_CTX_set_alpn_protos_
#define SSL_CTX_set_default_passwd_cb                                          \
    snib__openssl.SSL_CTX_set_default_passwd_cb_
#define SSL_CTX_set_default_passwd_cb_userdata                                 \
    snib__openssl.SSL_CTX_set_default_passwd_cb_userdata_
#define SSL_CTX_set_default_verify_paths                                       \
    snib__openssl.SSL_CTX_set_default_verify_paths_
#define SSL_CTX_set_options         snib__openssl.SSL_CTX_set_options_
#define SSL_CTX_set_verify          snib__openssl.SSL_CTX_set_verify_
#define SSL_CTX_use_PrivateKey_file snib__openssl.SSL_CTX_use_PrivateKey_file_
#define SSL_CTX_use_certificate_chain_file                                     \
    snib__openssl.SSL_CTX_use_certificate_chain_file_
#define SSL_SESSION_free            snib__openssl.SSL_SESSION_free_
#define SSL_SESSION_is_resumable    snib__openssl.SSL_SESSION_is_resumable_
#define SSL_ctrl                    snib__openssl.SSL_ctrl_
#define SSL_do_handshake            snib__openssl.SSL_do_handshake_
#define SSL_free                    snib__openssl.SSL_free_
#define SSL_get0_alpn_selected      snib__openssl.SSL_get0_alpn_selected_
#define SSL_get0_param              snib__openssl.SSL_get0_param_
#define SSL_get0_verified_chain     snib__openssl.SSL_get0_verified_chain_
#define SSL_get_error               snib__openssl.SSL_get_error_
#define SSL_get_ex_data             snib__openssl.SSL_get_ex_data_
#define SSL_get_verify_result       snib__openssl.SSL_get_verify_result_
#define SSL_new                     snib__openssl.SSL_new_
#define SSL_read_ex                 snib__openssl.SSL_read_ex_
#define SSL_session_reused          snib__openssl.SSL_session_reused_
#define SSL_set_bio                 snib__openssl.SSL_set_bio_
#define SSL_set_connect_state       snib__openssl.SSL_set_connect_state_
#define SSL_set_ex_data             snib__openssl.SSL_set_ex_data_
#define SSL_set_session             snib__openssl.SSL_set_session_
#define SSL_set_shutdown            snib__openssl.SSL_set_shutdown_
#define SSL_shutdown                snib__openssl.SSL_shutdown_
#define SSL_write_ex                snib__openssl.SSL_write_ex_
#define TLS_client_method           snib__openssl.TLS_client_method_
#define X509_VERIFY_PARAM_set1_host snib__openssl.X509_VERIFY_PARAM_set1_host_
#define X509_VERIFY_PARAM_set1_ip_asc                                          \
    snib__openssl.X509_VERIFY_PARAM_set1_ip_asc_
#define X509_VERIFY_PARAM_set_hostflags                                        \
    snib__openssl.X509_VERIFY_PARAM_set_hostflags_
#define X509_get_ext_d2i snib__openssl.X509_get_ext_d2i_
#define X509_verify_cert_error_string                                          \
    snib__openssl.X509_verify_cert_error_string_
#define a2i_IPADDRESS snib__openssl.a2i_IPADDRESS_

#endif
