/* base/error.h: the table of errors, filling struct snib_error. */
#include "unit.h"

#include "base/error.h"
#include "snib/sys.h"

static const snib_err all[] = {
#define CODE(name, class_, exit_, text) SNIB_ERR_##name,
    SNIB__ERRORS(CODE)
#undef CODE
};

static void ok_is_zero_and_exits_zero(void **state)
{
    (void)state;
    assert_int_equal(SNIB_ERR_OK, 0);
    assert_int_equal(snib_err_exit(SNIB_ERR_OK), 0);
    assert_int_equal(snib_err_class(SNIB_ERR_OK), SNIB_CLASS_NONE);
}

static void every_error_has_a_name_a_text_a_class_and_an_exit(void **state)
{
    (void)state;
    for (size_t i = 1; i < COUNT_OF(all); i++) {
        assert_int_equal(all[i], i);
        assert_true(*snib_err_name(all[i]) && *snib_err_text(all[i]));
        assert_true(snib_err_class(all[i]) != SNIB_CLASS_NONE);
        int exit = snib_err_exit(all[i]);
        assert_true(exit >= 64 && exit <= 78);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(snib_err_name(all[i]),
                                    snib_err_name(all[k]));
            assert_string_not_equal(snib_err_text(all[i]),
                                    snib_err_text(all[k]));
        }
    }
}

static void exit_codes_are_those_of_the_command_line_contract(void **state)
{
    (void)state;
    assert_int_equal(snib_err_exit(SNIB_ERR_USAGE), 64);
    assert_int_equal(snib_err_exit(SNIB_ERR_UNREACHABLE), 69);
    assert_int_equal(snib_err_exit(SNIB_ERR_INTERNAL), 70);
    assert_int_equal(snib_err_exit(SNIB_ERR_BUSY), 75);
    assert_int_equal(snib_err_exit(SNIB_ERR_TIMEOUT), 75);
    assert_int_equal(snib_err_exit(SNIB_ERR_LOST), 76);
    assert_int_equal(snib_err_exit(SNIB_ERR_DENIED), 77);
    assert_int_equal(snib_err_exit(SNIB_ERR_CONFIG), 78);
}

static void a_lost_reply_is_neither_refused_nor_lost(void **state)
{
    (void)state;
    assert_int_equal(snib_err_class(SNIB_ERR_UNKNOWN), SNIB_CLASS_UNKNOWN);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (snib_err_class(all[i]) == SNIB_CLASS_UNKNOWN) {
            assert_int_equal(all[i], SNIB_ERR_UNKNOWN);
        }
    }
}

static void a_value_outside_the_table_is_internal(void **state)
{
    (void)state;
    static const int outside[] = {-1, COUNT_OF(all), 1000, INT32_MIN};
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        snib_err err = (snib_err)outside[i];
        assert_string_equal(snib_err_name(err), "?");
        assert_int_equal(snib_err_class(err), SNIB_CLASS_INTERNAL);
        assert_int_equal(snib_err_exit(err), 70);
    }
}

static void failing_fills_the_callers_struct(void **state)
{
    (void)state;
    struct snib_error e;
    assert_int_equal(snib__fail(&e, SNIB_ERR_CONFIG, "%s %d", "x", 1),
                     SNIB_ERR_CONFIG);
    assert_int_equal(e.code, SNIB_ERR_CONFIG);
    assert_string_equal(e.text, "x 1");
    assert_int_equal(snib__fail_plain(&e, SNIB_ERR_LOST), SNIB_ERR_LOST);
    assert_string_equal(e.text, snib_err_text(SNIB_ERR_LOST));
    assert_int_equal(snib__ok(&e), SNIB_ERR_OK);
    assert_int_equal(e.code, SNIB_ERR_OK);
    assert_string_equal(e.text, "");
}

static void a_long_text_is_cut_and_terminated(void **state)
{
    (void)state;
    struct snib_error e;
    char text[1000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    snib__fail(&e, SNIB_ERR_STORE, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

static void nobody_listening_is_fine(void **state)
{
    (void)state;
    assert_int_equal(snib__fail(NULL, SNIB_ERR_BUSY, "x"), SNIB_ERR_BUSY);
    assert_int_equal(snib__fail_plain(NULL, SNIB_ERR_BUSY), SNIB_ERR_BUSY);
    assert_int_equal(snib__ok(NULL), SNIB_ERR_OK);
}

static void states_and_reasons_have_words(void **state)
{
    (void)state;
    assert_string_equal(snib_state_text(SNIB_STATE_HELD), "held");
    assert_string_equal(snib_state_text(SNIB_STATE_AT_RISK), "at risk");
    assert_string_equal(snib_state_text(SNIB_STATE_LOST), "lost");
    assert_string_equal(snib_state_text(SNIB_STATE_RELEASED), "released");
    assert_string_equal(snib_state_text((snib_state)99), "?");
    assert_string_equal(snib_cause_text(SNIB_CAUSE_NONE), "");
    for (int r = SNIB_CAUSE_EXPIRED; r <= SNIB_CAUSE_HOLD_MAX; r++) {
        assert_true(strlen(snib_cause_text((snib_cause)r)) > 1);
    }
    assert_string_equal(snib_cause_text((snib_cause)99), "?");
}

static void the_version_is_that_of_the_header(void **state)
{
    (void)state;
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", SNIB_VERSION_MAJOR,
             SNIB_VERSION_MINOR, SNIB_VERSION_PATCH);
    assert_string_equal(snib_version(), text);
    assert_string_equal(snib_version(), SNIB_VERSION);
}

int main(void)
{
    const struct CMUnitTest error[] = {
        cmocka_unit_test(ok_is_zero_and_exits_zero),
        cmocka_unit_test(every_error_has_a_name_a_text_a_class_and_an_exit),
        cmocka_unit_test(exit_codes_are_those_of_the_command_line_contract),
        cmocka_unit_test(a_lost_reply_is_neither_refused_nor_lost),
        cmocka_unit_test(a_value_outside_the_table_is_internal),
        cmocka_unit_test(failing_fills_the_callers_struct),
        cmocka_unit_test(a_long_text_is_cut_and_terminated),
        cmocka_unit_test(nobody_listening_is_fine),
        cmocka_unit_test(states_and_reasons_have_words),
        cmocka_unit_test(the_version_is_that_of_the_header),
    };
    return RUN(error);
}
