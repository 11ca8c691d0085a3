"""What stands in every dump, known to the test that loads it. None of these opens anything outside of tests."""

PLACE = "/a-former-place"  # of the repositories
KEY = "the key of the secrets in dumps for tests"
PASSWORD = "a password in dumps for tests"
HOOK_SECRET = "the secret of the webhook in dumps"
CHANNEL = "https://example.org/hook-of-a-channel"
# Of release 1.0: 43 characters, no check sum.
MACHINE_TOKEN = "strn_00112233aabb_" + "only-in-dumps-for-tests_" + "0" * 19
