/*
 * test_sha256.c - SHA-256, HMAC and HKDF against the published vectors of FIPS 180-4, RFC 4231 and RFC 5869.
 * tests/tools/test_sha256.py compares random inputs with OpenSSL.
 */
#include "harness.h"

#include "auth/sha256.h"

static size_t from_hex(const char *hex, uint8_t *out) {
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return n;
}

static void expect(const uint8_t *got, const char *hex) {
    uint8_t wanted[256];
    assert_memory_equal(got, wanted, from_hex(hex, wanted));
}

static void hashes(void **state) {
    static const struct {
        const char *text, *hash;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmno"
         "p"
         "qrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        size_t len = strlen(vectors[i].text);
        for (size_t split = 0; split <= len; split++) { /* in two parts */
            struct msi_sha256 hash;
            uint8_t out[MSI_SHA256_BYTES];
            msi_sha256_begin(&hash);
            msi_sha256_add(&hash, vectors[i].text, split);
            msi_sha256_add(&hash, vectors[i].text + split, len - split);
            msi_sha256_end(&hash, out);
            expect(out, vectors[i].hash);
        }
    }
}

static void a_million_letters(void **state) {
    static char letters[1000];
    struct msi_sha256 hash;
    uint8_t out[MSI_SHA256_BYTES];
    (void)state;
    memset(letters, 'a', sizeof letters);
    msi_sha256_begin(&hash);
    for (int i = 0; i < 1000; i++) msi_sha256_add(&hash, letters, sizeof letters);
    msi_sha256_end(&hash, out);
    expect(out, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* RFC 4231; the fifth case truncates the result to 128 bits. */
static void hmacs(void **state) {
    static const char long_key[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    static const struct {
        const char *key, *data, *hmac;
    } vectors[] = {
        {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "4869205468657265",
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"4a656665", "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
         "d",
         "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
        {"0102030405060708090a0b0c0d0e0f10111213141516171819",
         "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdc"
         "d",
         "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
        {"0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c", "546573742057697468205472756e636174696f6e",
         "a3b6167473100ee06e0c796c2955552b"},
        {long_key,
         "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a65204b6579202d2048617368204b6579204"
         "669"
         "727374",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
        {long_key,
         "5468697320697320612074657374207573696e672061206c6172676572207468616e20626c6f636b2d73697a65206b65792"
         "0616e"
         "642061206c6172676572207468616e20626c6f636b2d73697a6520646174612e20546865206b6579206e6565647320746f2"
         "062"
         "6520686173686564206265666f7265206265696e6720757365642062792074686520484d414320616c676f726974686d2e",
         "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        uint8_t key[256], data[256], out[MSI_SHA256_BYTES];
        struct msi_hmac hmac;
        msi_hmac_begin(&hmac, key, from_hex(vectors[i].key, key));
        msi_hmac_add(&hmac, data, from_hex(vectors[i].data, data));
        msi_hmac_end(&hmac, out);
        expect(out, vectors[i].hmac);
    }
}

static void derived_keys(void **state) {
    static const struct {
        const char *secret, *salt, *info, *out;
    } vectors[] = {
        {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9",
         "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
        {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303"
         "132"
         "333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f",
         "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909"
         "192"
         "939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
         "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e"
         "1e2"
         "e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
         "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09da3"
         "275"
         "600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
        {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
         "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        uint8_t secret[128], salt[128], info[128], out[128];
        struct msi_hkdf_input input = {.salt = salt, .secret = secret, .info = info};
        input.secret_len = from_hex(vectors[i].secret, secret);
        input.salt_len = from_hex(vectors[i].salt, salt);
        input.info_len = from_hex(vectors[i].info, info);
        size_t len = strlen(vectors[i].out) / 2;
        out[len] = 0x77;
        msi_hkdf(&input, out, len);
        expect(out, vectors[i].out);
        assert_int_equal(out[len], 0x77);
    }
}

static void comparisons(void **state) {
    uint8_t a[MSI_SHA256_BYTES] = {0}, b[MSI_SHA256_BYTES] = {0};
    (void)state;
    assert_true(msi_equal_in_constant_time(a, b, sizeof a));
    for (size_t bit = 0; bit < 8 * sizeof a; bit++) {
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(msi_equal_in_constant_time(a, b, sizeof a));
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_true(msi_equal_in_constant_time(a, b, 0));
    msi_wipe(memset(a, 1, sizeof a), sizeof a);
    assert_memory_equal(a, b, sizeof a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes),       cmocka_unit_test(a_million_letters), cmocka_unit_test(hmacs),
        cmocka_unit_test(derived_keys), cmocka_unit_test(comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
