/* A program that asks for a witness and does not say where its program is. It
 * prints "there", or why not. No server is needed: a witness connects only when
 * its client has ended. */
#include <snib.h>

#include <stdio.h>

int main(void)
{
    struct snib_error e;
    struct snib_client *client;
    struct snib_client_options options = {
        .size = sizeof options, .url = "redis://127.0.0.1:1", .witness = true};
    if (snib_client_open(&options, &client, &e)) {
        printf("%s: %s\n", snib_err_name(e.code), e.text);
        return 0;
    }
    puts(snib_client_witness(client) == SNIB_WITNESS_WATCHES ? "there"
                                                             : "not there");
    snib_client_free(client);
    return 0;
}
